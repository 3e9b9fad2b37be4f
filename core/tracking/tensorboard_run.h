#ifndef ACCEL_CORE_TRACKING_TENSORBOARD_RUN_H_
#define ACCEL_CORE_TRACKING_TENSORBOARD_RUN_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/internal/v1/tensorboard.pb.h"
#include "core/tracking/event_file.h"

namespace accel::tracking {

// One run as TensorBoard understands it: a folder with event files, of which this process writes
// the last. Rows may be added again after an error: those that are in the file already are left
// out.
class TensorBoardRun {
 public:
  // With a `resume_step`, the file starts with the mark that voids what earlier files of the folder
  // hold from that step on.
  static absl::StatusOr<TensorBoardRun> Open(const std::filesystem::path& folder,
                                             absl::string_view suffix, absl::Time now,
                                             std::optional<int64_t> resume_step);

  // A value whose step is smaller than that of the value before it.
  struct StepBack {
    std::string tag;
    int64_t from = 0;
    int64_t to = 0;
  };

  // Buffers the values of the row `sequence`, and tells which of them go back.
  std::vector<StepBack> AddRow(int64_t sequence,
                               const accel::internal::v1::tensorboard::Event& event);

  // Buffers an event that is not a row.
  void Add(const accel::internal::v1::tensorboard::Event& event) { file_.Add(event); }

  // Appends everything that is buffered with one write. After an error nothing of it is in the file
  // and nothing is buffered.
  absl::Status Flush();

  // Puts what was flushed on the disk.
  absl::Status Sync() { return file_.Sync(); }

 private:
  explicit TensorBoardRun(EventFile file) : file_(std::move(file)) {}

  EventFile file_;
  // Last row and each tag's last step in the file, and with what is buffered.
  int64_t written_sequence_ = 0;
  int64_t buffered_sequence_ = 0;
  absl::flat_hash_map<std::string, int64_t> written_steps_;
  absl::flat_hash_map<std::string, int64_t> buffered_steps_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TENSORBOARD_RUN_H_
