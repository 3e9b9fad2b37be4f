#ifndef ACCEL_CORE_TRACKING_FEED_SOURCE_H_
#define ACCEL_CORE_TRACKING_FEED_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/record/reader.h"
#include "core/record/tracker_cursors.h"
#include "core/tracking/rewind_filter.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// The rows of a job's record that a tracker has not got yet, and what is kept of the tracker there.
// Used by one thread. Any call may be repeated after an error.
class FeedSource {
 public:
  // Rows of single ranks other than 0 are left out when `main_process_only`, values of steps that
  // are trained again when `keeps_first`.
  FeedSource(std::filesystem::path record_path, std::string tracker, bool main_process_only,
             bool keeps_first, record::ReadLimits limits);

  // Rows of one attempt.
  struct Batch {
    std::vector<LogCall> calls;
    // Where the next batch begins once this one is handed over.
    int64_t next_after = 0;
    // Whether the record had no further rows.
    bool at_end = false;
    // What the attempt that begins with the batch trains again.
    std::optional<RewindFilter::Repeat> repeat;
  };

  // Opens the record and reads what is kept there; does nothing when that is done.
  absl::Status Open();
  bool is_open() const { return cursors_ != nullptr; }

  // Whether the tracker has had its configuration, from this process or an earlier one. This and
  // what follows are to be used after Open.
  bool configured() const { return configured_; }
  absl::Status MarkConfigured();

  // As an earlier process left it.
  const accel::v1::TrackerStatus& kept_status() const { return kept_status_; }
  absl::Status Keep(const accel::v1::TrackerStatus& status) { return cursors_->SetStatus(status); }

  // Every row up to here has been handed over or is none of the tracker's.
  int64_t position() const { return position_; }
  absl::StatusOr<Batch> Read();
  // `held_from` is the first row that must come again after a restart.
  absl::Status Advance(const Batch& batch, std::optional<int64_t> held_from);
  // Nothing is held any more.
  absl::Status AdvanceToPosition();

 private:
  absl::Status ReplayFilter();

  const std::filesystem::path record_path_;
  const std::string tracker_;
  const bool main_process_only_;
  const bool keeps_first_;
  const record::ReadLimits limits_;
  std::unique_ptr<record::Reader> reader_;
  std::unique_ptr<record::TrackerCursors> cursors_;
  RewindFilter filter_;
  // The filter before the batch that was read last, should that be read again.
  RewindFilter filter_before_;
  accel::v1::TrackerStatus kept_status_;
  bool configured_ = false;
  int64_t position_ = 0;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_FEED_SOURCE_H_
