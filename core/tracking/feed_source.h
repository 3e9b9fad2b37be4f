#ifndef ACCEL_CORE_TRACKING_FEED_SOURCE_H_
#define ACCEL_CORE_TRACKING_FEED_SOURCE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/record/reader.h"
#include "core/record/tracker_cursors.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// The rows of a job's record that a tracker has not got yet. Used by one thread. Any call may be
// repeated after an error.
class FeedSource {
 public:
  // Rows of single ranks other than 0 are left out when `main_process_only`.
  FeedSource(std::filesystem::path record_path, std::string tracker, bool main_process_only,
             record::ReadLimits limits);

  struct Batch {
    std::vector<LogCall> calls;
    // Where the next batch begins once this one is handed over.
    int64_t next_after = 0;
    // Whether the record had no further rows.
    bool at_end = false;
  };

  // Opens the record and reads the tracker's cursor; does nothing when that is done.
  absl::Status Open();

  // Whether the tracker has had its configuration, from this process or an earlier one. This and
  // what follows are to be used after Open.
  bool configured() const { return configured_; }
  absl::Status MarkConfigured();

  // Every row up to here has been handed over or is none of the tracker's.
  int64_t position() const { return position_; }
  absl::StatusOr<Batch> Read();
  absl::Status Advance(const Batch& batch);

 private:
  const std::filesystem::path record_path_;
  const std::string tracker_;
  const bool main_process_only_;
  const record::ReadLimits limits_;
  std::unique_ptr<record::Reader> reader_;
  std::unique_ptr<record::TrackerCursors> cursors_;
  bool configured_ = false;
  int64_t position_ = 0;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_FEED_SOURCE_H_
