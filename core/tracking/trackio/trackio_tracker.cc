#include "core/tracking/trackio/trackio_tracker.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/json_values.h"
#include "core/tracking/run_identity.h"

namespace accel::tracking {
namespace {

constexpr size_t kIdDigits = 32;
constexpr size_t kWriterDigits = 16;

std::string Timestamp(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6S+00:00", time, absl::UTCTimeZone());
}

// What is left of a project's name in the name of its file.
std::string FileName(absl::string_view project) {
  std::string name;
  for (const char c : project) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_') name.push_back(c);
  }
  return name.empty() ? "default" : name;
}

bool IsReservedProject(absl::string_view name) {
  return absl::StartsWith(name, "registry-") || absl::EndsWith(name, "_system") ||
         absl::EndsWith(name, "_configs") || absl::EndsWith(name, "_traces");
}

bool IsReservedKey(absl::string_view key) {
  static const auto* const keys =
      new std::set<std::string>{"project", "run", "timestamp", "step", "time", "metrics"};
  return keys->count(std::string(key)) > 0 || absl::StartsWith(key, "__");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> TrackioTracker::Make(const accel::v1::TrackioTracker& spec,
                                                              const TrackerContext& context) {
  const std::string project = FileName(context.project);
  if (IsReservedProject(project)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the project \"", project,
                     "\" is a name that trackio keeps for itself: it must not start "
                     "with \"registry-\" or end with \"_system\", \"_configs\" or \"_traces\""));
  }
  const std::string server = context.settings.Choose(spec.server_url(), "TRACKIO_SERVER_URL");
  std::unique_ptr<TrackioStore> store;
  const std::filesystem::path folder = context.folder / "trackio";
  if (!server.empty()) {
    const std::string token = context.settings.Secret(
        spec.has_write_token_secret() ? spec.write_token_secret() : "TRACKIO_WRITE_TOKEN");
    std::vector<std::string> headers;
    if (!token.empty()) headers.push_back(absl::StrCat("X-Trackio-Write-Token: ", token));
    store =
        TrackioStore::Server(JsonApi(context.make_http(HttpOptions()), server, std::move(headers)));
  } else if (spec.storage() == "inbox") {
    store = TrackioStore::Inbox(
        folder, DerivedHex(context.job_uid, "trackio writer", kWriterDigits), context.files);
  } else {
    store = TrackioStore::Sqlite(folder, project);
  }
  return std::make_unique<TrackioTracker>(std::move(store), project,
                                          spec.has_name() ? spec.name() : context.job_id,
                                          spec.group(), context);
}

TrackioTracker::TrackioTracker(std::unique_ptr<TrackioStore> store, std::string project,
                               std::string run_name, std::string group,
                               const TrackerContext& context)
    : store_(std::move(store)), group_(std::move(group)), context_(context) {
  run_.project = std::move(project);
  run_.name = std::move(run_name);
  run_.id = DerivedHex(context.job_uid, "trackio run", kIdDigits);
  run_.created = Timestamp(context.create_time);
  run_.config = "{}";
}

absl::Status TrackioTracker::Start(std::optional<int64_t> /*resume_step*/) {
  if (run_.project != context_.project) {
    WarnOnce("project", absl::StrCat("trackio shows the project \"", context_.project, "\" as \"",
                                     run_.project, "\""));
  }
  return absl::OkStatus();
}

absl::Status TrackioTracker::StoreInitConfiguration(const ConfigMap& values) {
  nlohmann::json config = {{"_Username", nullptr}, {"_Created", run_.created}, {"_Group", nullptr}};
  if (!group_.empty()) config["_Group"] = group_;
  for (const auto& [name, value] : values) {
    const std::string repaired = RepairUtf8(name);
    const std::string key(absl::StripPrefix(repaired, "_"));
    if (key != repaired) {
      WarnOnce(name, absl::StrCat("trackio keeps names with \"_\" at the start for itself: ",
                                  repaired, " is shown as ", key));
    }
    config[key] = ConfigJson(value);
  }
  run_.config = DumpJson(config);
  return store_->Add(run_, {});
}

absl::Status TrackioTracker::Log(const std::vector<LogCall>& calls) {
  std::vector<TrackioRow> rows;
  for (const LogCall& call : calls) {
    TrackioRow row;
    row.metrics = MetricsJson(call);
    row.step = call.step.value_or(0);
    row.timestamp = Timestamp(call.time);
    row.log_id =
        DerivedHex(context_.job_uid, absl::StrCat("trackio row ", call.sequence), kIdDigits);
    rows.push_back(std::move(row));
  }
  return store_->Add(run_, rows);
}

absl::Status TrackioTracker::Finish(RunOutcome /*outcome*/) { return absl::OkStatus(); }

std::string TrackioTracker::MetricsJson(const LogCall& call) {
  nlohmann::json metrics = nlohmann::json::object();
  for (const auto& [key, value] : call.values) {
    const std::string name = CheckedKey(key);
    if (value.has_number()) metrics[name] = NumberOrWord(value.number());
    if (value.has_text()) metrics[name] = RepairUtf8(value.text());
    if (!value.has_map()) continue;
    metrics[name] = nlohmann::json::object();
    for (const auto& [part, number] : value.map().values()) {
      metrics[name][RepairUtf8(part)] = NumberOrWord(number);
    }
  }
  return DumpJson(metrics);
}

std::string TrackioTracker::CheckedKey(const std::string& key) {
  std::string repaired = RepairUtf8(key);
  if (!IsReservedKey(repaired)) return repaired;
  WarnOnce(key, absl::StrCat(repaired, " is a key of trackio's own and is shown as __", repaired));
  return absl::StrCat("__", repaired);
}

void TrackioTracker::WarnOnce(const std::string& what, std::string message) {
  if (warned_.insert(what).second) warnings_.push_back(std::move(message));
}

}  // namespace accel::tracking
