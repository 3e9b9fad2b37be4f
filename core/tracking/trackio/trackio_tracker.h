#ifndef ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_TRACKER_H_
#define ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_TRACKER_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/tracker.h"
#include "core/tracking/trackio/trackio_store.h"

namespace accel::tracking {

// Trackio: a row of the job's record is a row of the run, numbers, texts and maps as they are; NaN
// and infinities as the words that Trackio's readers turn back. Keys that Trackio keeps for itself
// get
// "__" in front. Each row has an id made from its place in the record, so that it is stored once
// however often it is sent.
class TrackioTracker final : public Tracker {
 public:
  // From the job's options, then TRACKIO_SERVER_URL; without a server, into the job's folder.
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::TrackioTracker& spec,
                                                       const TrackerContext& context);

  TrackioTracker(std::unique_ptr<TrackioStore> store, std::string project, std::string run_name,
                 std::string group, const TrackerContext& context);

  absl::string_view name() const override { return "trackio"; }
  bool requires_logging_directory() const override { return false; }
  bool wants_configuration_at_each_start() const override { return true; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override { return store_->location(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings_, {}); }

 private:
  std::string CheckedKey(const std::string& key);
  std::string MetricsJson(const LogCall& call);
  void WarnOnce(const std::string& what, std::string message);

  const std::unique_ptr<TrackioStore> store_;
  const std::string group_;
  const TrackerContext context_;
  TrackioRun run_;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_TRACKER_H_
