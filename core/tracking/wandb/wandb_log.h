#ifndef ACCEL_CORE_TRACKING_WANDB_WANDB_LOG_H_
#define ACCEL_CORE_TRACKING_WANDB_WANDB_LOG_H_

#include <cstdint>
#include <deque>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/wandb.pb.h"
#include "core/tracking/block_log.h"
#include "core/tracking/wandb/wandb_items.h"

namespace accel::tracking {

// A run's transaction log, `run-<id>.wandb`, which `wandb sync` of the package uploads. Knows after
// a restart which rows of the job's record it holds.
class WandBLog {
 public:
  // Keeps no lines.
  static constexpr int64_t kNoLines = std::numeric_limits<int64_t>::max();

  // Opens or creates the log; a new one begins with `run`. The history is kept as JSON lines from
  // `first_line` on, until DropLines.
  static absl::StatusOr<WandBLog> Open(const std::filesystem::path& path,
                                       const accel::internal::v1::wandb::RunRecord& run,
                                       int64_t first_line);

  // Each buffers a record. A row holds the rows of the job's record up to `sequence`.
  void AddConfig(const WandBItems& items);
  void AddRow(int64_t step, const WandBItems& items, int64_t sequence);
  void AddExit(int exit_code, absl::Duration runtime);

  // As BlockLog's.
  absl::Status Flush() { return log_->Flush(); }
  absl::Status Sync() { return log_->Sync(); }

  // Last row of the job's record in the log, and its step.
  int64_t sequence() const { return sequence_; }
  std::optional<int64_t> step() const { return step_; }
  bool has_exit() const { return has_exit_; }
  const WandBItems& summary() const { return summary_; }

  // The lines that are kept, oldest first, and the number of the first.
  const std::deque<std::string>& lines() const { return lines_; }
  int64_t first_line() const { return first_line_; }
  void DropLines(size_t count);

 private:
  explicit WandBLog(int64_t first_line) : first_line_(first_line) {}
  void Learn(const accel::internal::v1::wandb::Record& record);
  void Add(accel::internal::v1::wandb::Record record);

  // Set once it is open.
  std::optional<BlockLog> log_;
  int64_t first_line_;
  int64_t num_ = 0;
  int64_t rows_ = 0;
  int64_t sequence_ = 0;
  std::optional<int64_t> step_;
  bool has_exit_ = false;
  WandBItems summary_;
  std::deque<std::string> lines_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_WANDB_WANDB_LOG_H_
