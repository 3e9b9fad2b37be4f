#ifndef ACCEL_CORE_TRACKING_AIM_AIM_TRACKER_H_
#define ACCEL_CORE_TRACKING_AIM_AIM_TRACKER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/v1/tracker.pb.h"
#include "core/base/clock.h"
#include "core/tracking/aim/client.h"
#include "core/tracking/aim/sequences.h"
#include "core/tracking/factory.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::aim {

// A run on an `aim server`. Its hash is made from the job's uid, so that every process that feeds
// the job finds it again; what the server holds of it is read at each start and after each failure.
// A point that is sent again takes its own place, so each is there once. The run is closed in full
// at the end: end time, sign of life, lock.
class AimTracker final : public Tracker {
 public:
  struct Options {
    // http:// or https://.
    std::string server;
    // 24 lower-case hexadecimal digits.
    std::string run;
    std::string name;
    // Empty for Aim's own default.
    std::string experiment;
    absl::Time create_time;
  };

  // FAILED_PRECONDITION without the address of a server: `repo`, or the node's AIM_REPO.
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::AimTracker& spec,
                                                       const TrackerContext& context);

  AimTracker(Options options, std::unique_ptr<HttpClient> http, const Clock* clock);

  absl::string_view name() const override { return "aim"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kTakesLast; }
  std::string location() const override;

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  // Connects, gets what the run needs on the server and reads what the run holds.
  absl::Status Open();
  absl::Status GetResources();
  // Begins the run, or takes its end back.
  absl::Status BeginRun(bool is_new);
  // Does `work` on an open run, a second time on a new connection where the server has forgotten
  // this client meanwhile.
  absl::Status OnOpenRun(absl::FunctionRef<absl::Status()> work);
  absl::Status WriteCalls(const std::vector<LogCall>& calls);
  absl::Status Close();
  std::string Handler(absl::string_view what) const;

  const Options options_;
  const Clock* const clock_;
  Client client_;
  Omissions omissions_;
  Sequences sequences_;
  bool open_ = false;
  bool said_totals_ = false;
  absl::Duration last_heartbeat_ = absl::ZeroDuration();
};

// The http:// or https:// address that a repository's `aim://host:port/base` stands for; one that
// is http:// or https:// already as it is. Empty for other texts.
std::string ServerOf(absl::string_view repo);

}  // namespace accel::tracking::aim

#endif  // ACCEL_CORE_TRACKING_AIM_AIM_TRACKER_H_
