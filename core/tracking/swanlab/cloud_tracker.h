#ifndef ACCEL_CORE_TRACKING_SWANLAB_CLOUD_TRACKER_H_
#define ACCEL_CORE_TRACKING_SWANLAB_CLOUD_TRACKER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/tracking/omissions.h"
#include "core/tracking/swanlab/cloud_api.h"
#include "core/tracking/swanlab/points.h"
#include "core/tracking/swanlab/run_options.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::swanlab {

// A run on SwanLab's service or one's own server of it. The service is asked at each start what it
// holds of the run, and keeps the first value of a key and step, so that a value counts once
// however often it is sent. A batch that is refused is halved until what the service does not take
// stands alone; that is left out and counted.
class CloudTracker final : public Tracker {
 public:
  CloudTracker(CloudApi api, RunOptions options, const Clock* clock)
      : api_(std::move(api)), options_(std::move(options)), clock_(clock) {}

  absl::string_view name() const override { return "swanlab"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override { return api_.location(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  absl::Status AddNewKeys(const std::vector<Point>& points);
  absl::Status KeepAlive();

  CloudApi api_;
  const RunOptions options_;
  const Clock* const clock_;
  Omissions omissions_;
  Points points_{&omissions_};
  std::set<std::string> keys_;
  absl::Duration last_heartbeat_ = -absl::InfiniteDuration();
};

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_CLOUD_TRACKER_H_
