#ifndef ACCEL_CORE_TRACKING_CUSTOM_CUSTOM_TRACKER_H_
#define ACCEL_CORE_TRACKING_CUSTOM_CUSTOM_TRACKER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// A tracker that the operator registered by an address: each call is a POST of JSON lines
// (application/x-ndjson) to it. Every line has `event`, `job` and `uid`:
//   {"event":"start","project":...,"options":{...},"resume_step":null or a step}
//   {"event":"config","values":{...}}
//   {"event":"log","sequence":n,"step":n,"time":seconds,"attempt":n,"values":{...}}
//   {"event":"rewind","step":n}
//   {"event":"finish","outcome":"succeeded"|"failed"|"cancelled"}
// Numbers that JSON does not have are the strings "NaN", "Infinity" and "-Infinity". A line may
// come again after a failure; a log line's `sequence` tells. A secret of the node with the
// tracker's name goes along as a bearer token.
class CustomTracker final : public Tracker {
 public:
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::CustomTracker& spec,
                                                       const TrackerContext& context);

  CustomTracker(accel::v1::CustomTracker spec, JsonApi api, const TrackerContext& context)
      : spec_(std::move(spec)), api_(std::move(api)), context_(context) {}

  absl::string_view name() const override { return spec_.name(); }
  bool requires_logging_directory() const override { return false; }
  std::string location() const override { return api_.base_url(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status OnRewind(int64_t step) override;
  absl::Status Finish(RunOutcome outcome) override;

 private:
  absl::Status Post(std::vector<nlohmann::json> lines);

  const accel::v1::CustomTracker spec_;
  JsonApi api_;
  const TrackerContext context_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_CUSTOM_CUSTOM_TRACKER_H_
