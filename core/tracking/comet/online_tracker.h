#ifndef ACCEL_CORE_TRACKING_COMET_ONLINE_TRACKER_H_
#define ACCEL_CORE_TRACKING_COMET_ONLINE_TRACKER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/tracking/comet/messages.h"
#include "core/tracking/comet/online_api.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::comet {

// An experiment on Comet's service. The service keeps every point that it is sent, so that a batch
// whose answer was lost, or after which the supervisor was killed before it noted it, is there
// twice: at least once is what its protocol allows. What was accepted of a batch in this process is
// not sent again.
class OnlineTracker final : public Tracker {
 public:
  OnlineTracker(OnlineApi api, ExperimentOptions options, const Clock* clock)
      : api_(std::move(api)), options_(std::move(options)), clock_(clock) {}

  absl::string_view name() const override { return "comet_ml"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override { return api_.location(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  // What `pending_` still holds.
  absl::Status SendPending();
  absl::Status KeepAlive();

  OnlineApi api_;
  const ExperimentOptions options_;
  const Clock* const clock_;
  Omissions omissions_;
  // Messages of the rows up to `pending_sequence_` that are not sent yet.
  Messages pending_;
  int64_t pending_sequence_ = 0;
  absl::Duration next_beat_ = absl::ZeroDuration();
};

}  // namespace accel::tracking::comet

#endif  // ACCEL_CORE_TRACKING_COMET_ONLINE_TRACKER_H_
