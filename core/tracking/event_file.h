#ifndef ACCEL_CORE_TRACKING_EVENT_FILE_H_
#define ACCEL_CORE_TRACKING_EVENT_FILE_H_

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/internal/v1/tensorboard.pb.h"
#include "core/tracking/append_file.h"

namespace accel::tracking {

// Seconds since 1970, as events hold them: microseconds rounded once. (absl's own conversion of a
// long duration is off by up to the last bit, 0.24 microseconds.)
inline double WallSeconds(absl::Time time) {
  return static_cast<double>(absl::ToUnixMicros(time)) / 1e6;
}

// One event in the framing of TFRecord: length (64 bits, little endian), masked CRC-32C of it, the
// message, masked CRC-32C of that.
std::string FrameEvent(const accel::internal::v1::tensorboard::Event& event);

// A TensorBoard event file that only grows by whole records. Holds no descriptor between calls, so
// any number of files can be kept. Used by one thread.
class EventFile {
 public:
  // Creates a new file in `folder`, which is created when missing, with the version record in it.
  // Its name sorts after those of all event files there, since readers take them in that order:
  // `events.out.tfevents.<Unix seconds>.<host>.<process>.<number><suffix>`.
  static absl::StatusOr<EventFile> Create(const std::filesystem::path& folder,
                                          absl::string_view suffix, absl::Time now);

  // Buffers a record.
  void Add(const accel::internal::v1::tensorboard::Event& event);

  // Appends all buffered records with one write; the buffer is empty afterwards in any case. After
  // an error none of them is in the file.
  absl::Status Flush();

  // Puts what was flushed on the disk.
  absl::Status Sync() { return file_.Sync(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit EventFile(std::filesystem::path path) : file_(std::move(path), 0) {}

  AppendFile file_;
  std::string buffer_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_EVENT_FILE_H_
