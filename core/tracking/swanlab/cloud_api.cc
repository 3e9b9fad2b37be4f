#include "core/tracking/swanlab/cloud_api.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking::swanlab {
namespace {

using nlohmann::json;

// The package's version whose calls these are.
constexpr char kSdkHeader[] = "X-SwanLab-SDK-Version: 0.10.3";
constexpr char kColor[] = "#528d59";
constexpr char kHeartbeatFlag[] = "123456";

std::string IsoTime(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

// The service does not tell them apart.
json DataOf(double value) { return std::isfinite(value) ? json(value) : json("nan"); }

std::string SectionOf(const std::string& key) {
  const size_t slash = key.find('/');
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

absl::Status Unexpected(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, " was answered without what it should hold"));
}

}  // namespace

absl::Status CloudApi::Open(const RunOptions& options, absl::Time now) {
  held_.clear();
  ACCEL_RETURN_IF_ERROR(Login());
  workspace_ = options.workspace.empty() ? user_ : options.workspace;
  project_ = options.project;
  ACCEL_RETURN_IF_ERROR(OpenProject(options));
  return OpenExperiment(options, now);
}

std::string CloudApi::location() const {
  if (experiment_id_.empty()) return "";
  return absl::StrCat(host_, project_path_, "/runs/", experiment_slug_);
}

absl::Status CloudApi::Login() {
  constexpr char kWhat[] = "swanlab's login";
  ACCEL_RETURN_IF_ERROR(api_key_.status());
  ACCEL_ASSIGN_OR_RETURN(
      const JsonAnswer answer,
      ExchangeJson(client_.get(), "POST", absl::StrCat(host_, "/api/login/api_key"),
                   {kSdkHeader, absl::StrCat("authorization: ", *api_key_)}, nullptr));
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(kWhat));
  session_ = answer.Text("sid");
  if (session_.empty()) return Unexpected(kWhat);
  user_ = StringMember(answer.body.value("userInfo", json()), "username");
  return absl::OkStatus();
}

absl::Status CloudApi::OpenProject(const RunOptions& options) {
  constexpr char kWhat[] = "swanlab's project";
  const std::string path =
      absl::StrCat("/project/", PercentEncode(workspace_), "/", PercentEncode(project_));
  ACCEL_ASSIGN_OR_RETURN(JsonAnswer answer, Ask("GET", path, nullptr));
  if (answer.response.status == 404) {
    const json body = {{"name", project_},
                       {"visibility", options.is_public ? "PUBLIC" : "PRIVATE"}};
    ACCEL_ASSIGN_OR_RETURN(
        const JsonAnswer made,
        Ask("POST", absl::StrCat("/projects/", PercentEncode(workspace_)), body));
    // A project of this name may have been made meanwhile.
    if (made.response.status != 409) ACCEL_RETURN_IF_ERROR(made.ToStatus(kWhat));
    ACCEL_ASSIGN_OR_RETURN(answer, Ask("GET", path, nullptr));
  }
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(kWhat));
  project_id_ = answer.Text("cuid");
  project_path_ = answer.Text("path");
  if (project_id_.empty()) return Unexpected(kWhat);
  const auto version = answer.body.find("version");
  takes_series_ = version != answer.body.end() && *version == 1;
  return absl::OkStatus();
}

absl::Status CloudApi::OpenExperiment(const RunOptions& options, absl::Time now) {
  constexpr char kWhat[] = "swanlab's experiment";
  json body = {{"name", options.experiment_name},
               {"createdAt", IsoTime(now)},
               {"colors", {kColor, kColor}},
               {"cuid", options.id}};
  const auto add = [&](const char* field, const std::string& value) {
    if (!value.empty()) body[field] = value;
  };
  add("description", options.description);
  add("job", options.job_type);
  add("cluster", options.group);
  for (const std::string& tag : options.tags) body["labels"].push_back({{"name", tag}});
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask("POST", absl::StrCat(ProjectPath("project"), "/experiment"), body));
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(kWhat));
  experiment_id_ = answer.Text("cuid");
  experiment_slug_ = answer.Text("slug");
  if (experiment_id_.empty()) return Unexpected(kWhat);
  const bool is_new = answer.response.status == 201;
  return is_new ? absl::OkStatus() : ReadHeld(answer.Text("createdAt"), now);
}

absl::Status CloudApi::ReadHeld(absl::string_view created_at, absl::Time now) {
  constexpr char kWhat[] = "swanlab's summary of the run";
  absl::Time created = now;
  std::string unread;
  // Values from before are not looked at, so that it must not be later than the first one.
  if (!absl::ParseTime(absl::RFC3339_full, created_at, &created, &unread)) {
    created = absl::UnixEpoch();
  }
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask("GET",
                             absl::StrCat("/house/metrics/summaries/", PercentEncode(project_id_),
                                          "/", PercentEncode(experiment_id_),
                                          "?all=True&createdAt=", absl::ToUnixSeconds(created)),
                             nullptr));
  ACCEL_RETURN_IF_ERROR(answer.ToStatus(kWhat));
  if (!answer.body.is_object()) return Unexpected(kWhat);
  const json scalars = answer.body.value("scalar", json::array());
  if (!scalars.is_array()) return Unexpected(kWhat);
  for (const json& scalar : scalars) {
    if (scalar.is_object() && scalar.contains("key") && scalar["key"].is_string() &&
        scalar.contains("step") && scalar["step"].is_number_integer()) {
      held_[scalar["key"].get<std::string>()] = scalar["step"];
    }
  }
  return absl::OkStatus();
}

absl::Status CloudApi::SetConfig(const std::string& config_text) {
  const json body = {{"config", json::parse(config_text)}};
  return Tell(
      "PUT",
      absl::StrCat(ProjectPath("project"), "/runs/", PercentEncode(experiment_id_), "/profile"),
      body);
}

absl::Status CloudApi::AddKeys(const std::vector<std::string>& keys) {
  json columns = json::array();
  for (const std::string& key : keys) {
    json column = {{"key", key}, {"type", "FLOAT"}};
    const std::string section = SectionOf(key);
    if (!section.empty()) column["sectionName"] = section;
    columns.push_back(std::move(column));
  }
  if (takes_series_) {
    const json body = {{"series", std::move(columns)}};
    return Tell("POST", absl::StrCat(ProjectPath("projects"), "/series"), body);
  }
  return Tell("POST", absl::StrCat("/experiment/", PercentEncode(experiment_id_), "/columns"),
              columns);
}

absl::Status CloudApi::SendPoints(const Point* points, size_t count) {
  json metrics = json::array();
  for (size_t i = 0; i < count; ++i) {
    metrics.push_back({{"key", points[i].key},
                       {"index", points[i].step},
                       {"data", DataOf(points[i].value)},
                       {"create_time", IsoTime(points[i].time)}});
  }
  const json body = {{"type", "scalar"},
                     {"projectId", project_id_},
                     {"experimentId", experiment_id_},
                     {"metrics", std::move(metrics)}};
  return Tell("POST", "/house/metrics", body);
}

absl::Status CloudApi::Heartbeat() {
  return Tell("POST",
              absl::StrCat("/house/experiments/", PercentEncode(experiment_id_), "/heartbeat"),
              {{"flagId", kHeartbeatFlag}});
}

absl::Status CloudApi::SetState(absl::string_view state, absl::Time now) {
  const json body = {{"state", state}, {"finishedAt", IsoTime(now)}, {"from", "sdk"}};
  return Tell(
      "PUT",
      absl::StrCat(ProjectPath("project"), "/runs/", PercentEncode(experiment_id_), "/state"),
      body);
}

absl::StatusOr<JsonAnswer> CloudApi::Ask(absl::string_view method, const std::string& path,
                                         const json& body) {
  const auto send = [&] {
    return ExchangeJson(client_.get(), method, absl::StrCat(host_, "/api", path),
                        {kSdkHeader, absl::StrCat("Cookie: sid=", session_)}, body);
  };
  absl::StatusOr<JsonAnswer> answer = send();
  if (!answer.ok() || answer->response.status != 401) return answer;
  ACCEL_RETURN_IF_ERROR(Login());
  return send();
}

absl::Status CloudApi::Tell(absl::string_view method, const std::string& path, const json& body) {
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer, Ask(method, path, body));
  return answer.ToStatus(absl::StrCat("swanlab's ", method, " ", path));
}

std::string CloudApi::ProjectPath(absl::string_view service) const {
  return absl::StrCat("/", service, "/", PercentEncode(workspace_), "/", PercentEncode(project_));
}

}  // namespace accel::tracking::swanlab
