#include "core/tracking/swanlab/make.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/tracking/run_identity.h"
#include "core/tracking/swanlab/cloud_tracker.h"
#include "core/tracking/swanlab/file_tracker.h"

namespace accel::tracking::swanlab {
namespace {

// As the package makes them.
constexpr size_t kIdLetters = 8;

RunOptions OptionsOf(const accel::v1::SwanLabTracker& spec, const TrackerContext& context) {
  RunOptions options;
  options.project = context.project;
  options.workspace = context.settings.Choose(spec.workspace(), "SWANLAB_WORKSPACE");
  options.is_public = spec.public_();
  options.experiment_name =
      context.settings.Choose(spec.experiment_name(), "SWANLAB_EXP_NAME", context.job_id);
  options.description = spec.description();
  options.tags = {spec.tags().begin(), spec.tags().end()};
  options.group = spec.group();
  options.job_type = spec.job_type();
  options.id = spec.id().empty() ? DerivedName(context.job_uid, "swanlab", kIdLetters) : spec.id();
  return options;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::SwanLabTracker& spec, const TrackerContext& context) {
  const std::string mode = context.settings.Choose(spec.mode(), "SWANLAB_MODE", "cloud");
  const bool cloud = mode == "cloud" || mode == "online";
  std::vector<std::unique_ptr<Tracker>> trackers;
  if (mode == "disabled") return trackers;
  if (!cloud && mode != "offline") {
    return absl::InvalidArgumentError(absl::StrCat(
        "swanlab mode \"", mode, "\" is not allowed; allowed: cloud, offline, disabled"));
  }
  const RunOptions options = OptionsOf(spec, context);
  if (cloud) {
    const std::string host =
        context.settings.Choose(spec.api_host(), "SWANLAB_API_HOST", "https://api.swanlab.cn");
    CloudApi api(context.make_http(HttpOptions()), std::string(absl::StripSuffix(host, "/")),
                 context.settings.RequireSecret(spec.has_api_key_secret() ? spec.api_key_secret()
                                                                          : "SWANLAB_API_KEY"));
    trackers.push_back(std::make_unique<CloudTracker>(std::move(api), options, context.clock));
  }
  trackers.push_back(std::make_unique<FileTracker>(
      cloud ? "swanlab_archive" : "swanlab", context.folder / "swanlab", options, context.clock));
  return trackers;
}

}  // namespace accel::tracking::swanlab
