#ifndef ACCEL_CORE_TRACKING_BLOCK_LOG_H_
#define ACCEL_CORE_TRACKING_BLOCK_LOG_H_

#include <filesystem>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/append_file.h"

namespace accel::tracking {

// LevelDB's log format as W&B and SwanLab use it: a header of theirs, then records cut into
// fragments (checksum, length, kind, data) that never cross the borders of 32 KiB blocks counted
// from the start of the file. The checksum is the plain CRC-32 over kind and data. Used by one
// thread.
class BlockLog {
 public:
  // Opens or creates the log. Calls back with each whole record that it holds; what follows the
  // last one, torn by a crash, is cut off. DATA_LOSS where the header is another.
  static absl::StatusOr<BlockLog> Open(const std::filesystem::path& path, absl::string_view header,
                                       absl::FunctionRef<void(absl::string_view)> on_record);

  // Buffers a record.
  void Add(absl::string_view record);

  // Appends what is buffered with one write. After an error the file is as it was and the records
  // are still buffered.
  absl::Status Flush();

  // Puts what was flushed on the disk.
  absl::Status Sync() { return file_.Sync(); }

  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit BlockLog(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
  std::string pending_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_BLOCK_LOG_H_
