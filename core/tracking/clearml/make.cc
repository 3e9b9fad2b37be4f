#include "core/tracking/clearml/make.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/flag_text.h"
#include "core/tracking/clearml/online_tracker.h"
#include "core/tracking/clearml/session_tracker.h"
#include "core/tracking/run_identity.h"

namespace accel::tracking::clearml {
namespace {

// As the package makes them.
constexpr size_t kIdDigits = 32;
constexpr char kApiKeys[] = "CLEARML_API_KEYS";

// "access_key:secret_key". The package's own two variables stand for it where the node has not the
// one secret.
absl::StatusOr<std::string> ApiKeys(const accel::v1::ClearMLTracker& spec,
                                    const TrackerSettings& settings) {
  const std::string access = settings.Secret("CLEARML_API_ACCESS_KEY");
  const std::string secret = settings.Secret("CLEARML_API_SECRET_KEY");
  const bool has_pair = !access.empty() && !secret.empty();
  if (!spec.has_api_keys_secret() && settings.Secret(kApiKeys).empty() && has_pair) {
    return absl::StrCat(access, ":", secret);
  }
  return settings.RequireSecret(spec.has_api_keys_secret() ? spec.api_keys_secret() : kApiKeys);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::ClearMLTracker& spec, const TrackerContext& context) {
  const TrackerSettings& settings = context.settings;
  const bool offline = spec.has_offline()
                           ? spec.offline()
                           : FlagOr(settings.Choose("", "CLEARML_OFFLINE_MODE"), false);
  TaskOptions options;
  options.project = settings.Choose(spec.project_name(), "CLEARML_PROJECT", context.project);
  options.name = settings.Choose(spec.task_name(), "CLEARML_TASK", context.project);
  options.tags = {spec.tags().begin(), spec.tags().end()};
  options.comment = spec.comment();
  options.mark = absl::StrCat("accel-", DerivedHex(context.job_uid, "clearml task", kIdDigits));
  const std::filesystem::path folder = context.folder / "clearml";
  std::vector<std::unique_ptr<Tracker>> trackers;
  if (!offline) {
    const std::string given =
        settings.Choose(spec.api_host(), "CLEARML_API_HOST", "https://api.clear.ml");
    const std::string host(absl::StripSuffix(given, "/"));
    OnlineApi api(context.make_http(HttpOptions()), host, ApiKeys(spec, settings));
    trackers.push_back(
        std::make_unique<OnlineTracker>(std::move(api), host, folder, options, context.files));
  }
  const std::string id =
      absl::StrCat("offline-", DerivedHex(context.job_uid, "clearml", kIdDigits));
  trackers.push_back(std::make_unique<SessionTracker>(
      offline ? "clearml" : "clearml_archive", folder, id, options, context.clock, context.files));
  return trackers;
}

}  // namespace accel::tracking::clearml
