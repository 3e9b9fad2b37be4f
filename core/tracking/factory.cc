#include "core/tracking/factory.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/tracking/aim/aim_tracker.h"
#include "core/tracking/clearml/make.h"
#include "core/tracking/comet/make.h"
#include "core/tracking/custom/custom_tracker.h"
#include "core/tracking/dvclive/dvclive_tracker.h"
#include "core/tracking/mlflow/mlflow_tracker.h"
#include "core/tracking/plugin/plugin_tracker.h"
#include "core/tracking/swanlab/make.h"
#include "core/tracking/tensorboard_tracker.h"
#include "core/tracking/trackio/trackio_tracker.h"
#include "core/tracking/wandb/wandb_tracker.h"

namespace accel::tracking {
namespace {

absl::StatusOr<std::unique_ptr<Tracker>> MakeTensorBoard(const accel::v1::TensorBoardTracker& spec,
                                                         const TrackerContext& context) {
  FieldViolations violations;
  if (context.project.empty() || context.project[0] == '.' ||
      absl::StrContains(context.project, '/')) {
    violations.Add("tracking.project", absl::StrCat("is \"", context.project,
                                                    "\", must not be empty, start with \".\" or "
                                                    "hold \"/\""));
  }
  if (absl::StrContains(spec.filename_suffix(), '/')) {
    violations.Add("tracking.trackers.tensorboard.filename_suffix",
                   absl::StrCat("is \"", spec.filename_suffix(), "\", must not hold \"/\""));
  }
  if (!violations.empty()) return violations.ToStatus();
  TensorBoardTracker::Options options;
  options.folder = context.folder / "tensorboard" / context.project;
  options.filename_suffix = spec.filename_suffix();
  return std::make_unique<TensorBoardTracker>(std::move(options), context.clock, context.files);
}

absl::StatusOr<std::unique_ptr<Tracker>> MakeCustom(const accel::v1::CustomTracker& spec,
                                                    const TrackerContext& context) {
  const auto plugin = context.plugins.find(spec.name());
  if (plugin == context.plugins.end()) return CustomTracker::Make(spec, context);
  return std::make_unique<PluginTracker>(spec, plugin->second, context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> MakeTracker(const accel::v1::TrackerSpec& spec,
                                                     const TrackerContext& context) {
  using accel::v1::TrackerSpec;
  switch (spec.tracker_case()) {
    case TrackerSpec::kTensorboard:
      return MakeTensorBoard(spec.tensorboard(), context);
    case TrackerSpec::kWandb:
      return WandBTracker::Make(spec.wandb(), context);
    case TrackerSpec::kTrackio:
      return TrackioTracker::Make(spec.trackio(), context);
    case TrackerSpec::kMlflow:
      return MLflowTracker::Make(spec.mlflow(), context);
    case TrackerSpec::kAim:
      return aim::AimTracker::Make(spec.aim(), context);
    case TrackerSpec::kDvclive:
      return DVCLiveTracker::Make(spec.dvclive(), context);
    case TrackerSpec::kCustom:
      return MakeCustom(spec.custom(), context);
    default:
      break;
  }
  FieldViolations violations;
  violations.Add("tracking.trackers", "holds a tracker of no kind, one of its fields must be set");
  return violations.ToStatus();
}

absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::TrackerSpec& spec, const TrackerContext& context) {
  using accel::v1::TrackerSpec;
  switch (spec.tracker_case()) {
    case TrackerSpec::kSwanlab:
      return swanlab::MakeTrackers(spec.swanlab(), context);
    case TrackerSpec::kCometMl:
      return comet::MakeTrackers(spec.comet_ml(), context);
    case TrackerSpec::kClearml:
      return clearml::MakeTrackers(spec.clearml(), context);
    default:
      break;
  }
  absl::StatusOr<std::unique_ptr<Tracker>> tracker = MakeTracker(spec, context);
  if (!tracker.ok()) return tracker.status();
  std::vector<std::unique_ptr<Tracker>> trackers;
  trackers.push_back(*std::move(tracker));
  return trackers;
}

absl::Duration BatchDelay(const accel::v1::TrackerSpec& spec) {
  constexpr double kDefaultSeconds = 0.2;
  const bool given = spec.tensorboard().has_flush_secs();
  return absl::Seconds(given ? spec.tensorboard().flush_secs() : kDefaultSeconds);
}

}  // namespace accel::tracking
