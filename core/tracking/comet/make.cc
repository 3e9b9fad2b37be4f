#include "core/tracking/comet/make.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "core/base/flag_text.h"
#include "core/tracking/comet/archive_tracker.h"
#include "core/tracking/comet/online_tracker.h"
#include "core/tracking/run_identity.h"

namespace accel::tracking::comet {
namespace {

// As the package makes them.
constexpr size_t kKeyDigits = 32;

ExperimentOptions OptionsOf(const accel::v1::CometMLTracker& spec, const TrackerContext& context) {
  ExperimentOptions options;
  options.key_is_given = spec.has_experiment_key();
  options.key = options.key_is_given ? spec.experiment_key()
                                     : DerivedHex(context.job_uid, "comet_ml", kKeyDigits);
  options.project = context.project;
  options.workspace = context.settings.Choose(spec.workspace(), "COMET_WORKSPACE");
  options.name = context.settings.Choose(spec.experiment_name(), "COMET_START_EXPERIMENT_NAME",
                                         context.job_id);
  options.tags = {spec.tags().begin(), spec.tags().end()};
  if (options.tags.empty()) {
    const std::string tags = context.settings.Choose("", "COMET_START_EXPERIMENT_TAGS");
    for (const absl::string_view tag : absl::StrSplit(tags, ',', absl::SkipWhitespace())) {
      options.tags.emplace_back(absl::StripAsciiWhitespace(tag));
    }
  }
  const std::string mode = context.settings.Choose(spec.start_mode(), "COMET_START_MODE");
  if (mode == "create") options.mode = ExperimentOptions::Mode::kCreate;
  // Without a key of the job's own there is no experiment yet to get.
  if (mode == "get" && options.key_is_given) options.mode = ExperimentOptions::Mode::kGet;
  return options;
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::CometMLTracker& spec, const TrackerContext& context) {
  const bool online = spec.has_online()
                          ? spec.online()
                          : FlagOr(context.settings.Choose("", "COMET_START_ONLINE"), true);
  ExperimentOptions options = OptionsOf(spec, context);
  std::vector<std::unique_ptr<Tracker>> trackers;
  if (online) {
    OnlineApi api(context.make_http(HttpOptions()),
                  context.settings.Choose(spec.base_url(), "COMET_URL_OVERRIDE",
                                          "https://www.comet.com/clientlib/"),
                  context.settings.RequireSecret(spec.has_api_key_secret() ? spec.api_key_secret()
                                                                           : "COMET_API_KEY"));
    trackers.push_back(std::make_unique<OnlineTracker>(std::move(api), options, context.clock));
    // The package refuses to upload to a key that is there.
    options.mode = ExperimentOptions::Mode::kCreate;
  }
  trackers.push_back(std::make_unique<ArchiveTracker>(online ? "comet_ml_archive" : "comet_ml",
                                                      context.folder / "comet_ml", options,
                                                      context.clock, context.files));
  return trackers;
}

}  // namespace accel::tracking::comet
