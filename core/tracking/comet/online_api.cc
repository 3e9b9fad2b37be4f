#include "core/tracking/comet/online_api.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"

namespace accel::tracking::comet {
namespace {

using nlohmann::json;

// The package's version whose calls these are.
constexpr char kLibVersion[] = "3.58.8";

// sdk_error_code of an answer.
constexpr int kKeyExists = 90999;
// Key refused, no such workspace, no project, name too long, view only, limit of experiments.
constexpr std::array kRefusedForGood = {90212, 90219, 98219, 1341241, 7000011, 7000020};

int CodeOf(const JsonAnswer& answer) {
  if (!answer.body.is_object()) return 0;
  const auto code = answer.body.find("sdk_error_code");
  return code != answer.body.end() && code->is_number_integer() ? code->get<int>() : 0;
}

absl::Status StatusOf(const JsonAnswer& answer, absl::string_view what) {
  absl::Status status = answer.ToStatus(what);
  if (status.ok()) return status;
  const int code = CodeOf(answer);
  if (std::find(kRefusedForGood.begin(), kRefusedForGood.end(), code) != kRefusedForGood.end()) {
    return Permanent(std::move(status));
  }
  if (answer.response.status != 429) return status;
  const auto wish = answer.response.headers.find("retry-after-custom");
  double seconds = 60;
  if (wish != answer.response.headers.end() &&
      (!absl::SimpleAtod(wish->second, &seconds) || !(seconds >= 0))) {
    seconds = 60;
  }
  return WithRetryAfter(std::move(status), absl::Seconds(seconds));
}

// `https://host/clientlib/` -> `https://host/api/rest/v2/`.
std::string RestOf(absl::string_view base) {
  const size_t scheme = base.find("://");
  const size_t path = base.find('/', scheme == absl::string_view::npos ? 0 : scheme + 3);
  return absl::StrCat(base.substr(0, path), "/api/rest/v2/");
}

json TextOrNull(const std::string& text) { return text.empty() ? json() : json(text); }

}  // namespace

OnlineApi::OnlineApi(std::unique_ptr<HttpClient> client, std::string base,
                     absl::StatusOr<std::string> api_key)
    : client_(std::move(client)),
      base_(absl::EndsWith(base, "/") ? std::move(base) : base + "/"),
      given_key_(std::move(api_key)),
      rest_(RestOf(base_)) {}

absl::Status OnlineApi::Open(const ExperimentOptions& options, bool may_exist, absl::Time now) {
  ACCEL_ASSIGN_OR_RETURN(api_key_, given_key_);
  key_ = options.key;
  JsonAnswer answer;
  if (options.mode == ExperimentOptions::Mode::kGet) {
    ACCEL_ASSIGN_OR_RETURN(answer, GetRun(now));
  } else {
    ACCEL_ASSIGN_OR_RETURN(answer, AddRun(options, now));
    if (CodeOf(answer) == kKeyExists) {
      if (!may_exist) return Permanent(answer.ToStatus("comet's add/run"));
      ACCEL_ASSIGN_OR_RETURN(answer, GetRun(now));
    }
  }
  ACCEL_RETURN_IF_ERROR(StatusOf(answer, "comet's experiment"));
  run_id_ = answer.Text("runId");
  project_id_ = answer.Text("project_id");
  location_ = answer.Text("focusUrl");
  if (run_id_.empty()) {
    return absl::UnavailableError("comet's experiment was answered without a run id");
  }
  return absl::OkStatus();
}

absl::Status OnlineApi::SendMetrics(const Metric* metrics, size_t count) {
  json values = json::array();
  for (size_t i = 0; i < count; ++i) {
    const Metric& metric = metrics[i];
    values.push_back({{"metricName", metric.name},
                      {"metricValue", NumberOrWord(metric.value)},
                      {"step", metric.step.has_value() ? json(*metric.step) : json()},
                      {"epoch", nullptr},
                      {"context", nullptr},
                      {"timestamp", metric.time_ms}});
  }
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask(base_ + "batch/logger/experiment/metric",
                             {{"experimentKey", key_}, {"values", std::move(values)}}));
  return StatusOf(answer, "comet's metrics");
}

absl::Status OnlineApi::SendParameters(const std::vector<std::pair<std::string, json>>& parameters,
                                       absl::Time now) {
  json values = json::array();
  for (const auto& [name, value] : parameters) {
    values.push_back({{"parameterName", name},
                      {"parameterValue", value},
                      {"step", nullptr},
                      {"source", "manual"},
                      {"context", nullptr},
                      {"timestamp", Milliseconds(now)}});
  }
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask(base_ + "batch/logger/experiment/parameter",
                             {{"experimentKey", key_}, {"values", std::move(values)}}));
  return StatusOf(answer, "comet's parameters");
}

absl::Status OnlineApi::SendOther(const std::string& key, const json& value) {
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask(rest_ + "write/experiment/log-other",
                             {{"experimentKey", key_}, {"key", key}, {"value", value}}));
  return StatusOf(answer, "comet's log-other");
}

absl::Status OnlineApi::AddTags(const std::vector<std::string>& tags) {
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         Ask(base_ + "tags/add-tags-to-experiment",
                             {{"apiKey", api_key_}, {"experimentKey", key_}, {"addedTags", tags}}));
  return StatusOf(answer, "comet's tags");
}

absl::Status OnlineApi::ReportAlive(bool is_alive, absl::Time now) {
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer, Ask(base_ + "status-report/update",
                                                      {{"apiKey", api_key_},
                                                       {"runId", run_id_},
                                                       {"experimentKey", key_},
                                                       {"projectId", project_id_},
                                                       {"is_alive", is_alive},
                                                       {"local_timestamp", Milliseconds(now)},
                                                       {"offline", false}}));
  ACCEL_RETURN_IF_ERROR(StatusOf(answer, "comet's status report"));
  if (!answer.body.is_object()) return absl::OkStatus();
  const auto beat = answer.body.find("is_alive_beat_duration_millis");
  if (beat != answer.body.end() && beat->is_number_integer()) {
    beat_ = absl::Milliseconds(std::max<int64_t>(1000, beat->get<int64_t>()));
  }
  return absl::OkStatus();
}

absl::Status OnlineApi::ReportFailure(const std::string& error) {
  ACCEL_ASSIGN_OR_RETURN(
      const JsonAnswer answer,
      Ask(rest_ + "write/experiment/update-status",
          {{"experimentKey", key_}, {"isAlive", true}, {"error", error}, {"hasCrashed", true}}));
  return StatusOf(answer, "comet's status");
}

absl::StatusOr<JsonAnswer> OnlineApi::AddRun(const ExperimentOptions& options, absl::Time now) {
  return Ask(base_ + "logger/add/run",
             {{"apiKey", api_key_},
              {"local_timestamp", Milliseconds(now)},
              {"experimentKey", key_},
              {"offline", false},
              {"projectName", TextOrNull(options.project)},
              {"teamName", TextOrNull(options.workspace)},
              {"libVersion", kLibVersion},
              {"getOrCreateEnabled", options.mode == ExperimentOptions::Mode::kGetOrCreate}});
}

absl::StatusOr<JsonAnswer> OnlineApi::GetRun(absl::Time now) {
  return Ask(base_ + "logger/get/run", {{"apiKey", api_key_},
                                        {"local_timestamp", Milliseconds(now)},
                                        {"previousExperiment", key_},
                                        {"libVersion", kLibVersion}});
}

absl::StatusOr<JsonAnswer> OnlineApi::Ask(const std::string& url, const json& body) {
  return ExchangeJson(client_.get(), "POST", url, {absl::StrCat("Authorization: ", api_key_)},
                      body);
}

}  // namespace accel::tracking::comet
