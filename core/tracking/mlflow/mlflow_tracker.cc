#include "core/tracking/mlflow/mlflow_tracker.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/flag_text.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"

namespace accel::tracking {
namespace {

using nlohmann::json;

constexpr size_t kMaxMetrics = 1000;
constexpr size_t kMaxParams = 100;
constexpr size_t kMaxKey = 250;
constexpr size_t kMaxParamValue = 6000;
constexpr char kJobTag[] = "accel.job_uid";

const char* StatusOf(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return "FINISHED";
    case RunOutcome::kFailed:
      return "FAILED";
    case RunOutcome::kCancelled:
      return "KILLED";
  }
  return "FAILED";
}

std::vector<std::string> Authorization(const MLflowTracker::Options& options) {
  std::vector<std::string> headers;
  if (!options.user.empty()) {
    headers.push_back(BasicAuthorization(options.user, options.password));
  } else if (!options.token.empty()) {
    headers.push_back(absl::StrCat("Authorization: Bearer ", options.token));
  }
  if (!options.workspace.empty()) {
    headers.push_back(absl::StrCat("X-MLFLOW-WORKSPACE: ", options.workspace));
  }
  return headers;
}

// The node's MLFLOW_TAGS is a JSON object; values that are no texts become ones.
absl::StatusOr<MLflowPairs> NodeTags(const std::string& text) {
  MLflowPairs tags;
  if (text.empty()) return tags;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return absl::InvalidArgumentError("the node's MLFLOW_TAGS is no JSON object");
  }
  for (const auto& [key, value] : object.items()) {
    tags.emplace_back(key, value.is_string() ? value.get<std::string>() : DumpJson(value));
  }
  return tags;
}

bool IsKeyByte(char c) {
  // Bytes of a letter beyond ASCII are left to the server, which knows which ones are letters.
  return absl::ascii_isalnum(c) || absl::StrContains("_-.:/ ", absl::string_view(&c, 1)) ||
         static_cast<unsigned char>(c) >= 0x80;
}

// `key` with what MLflow refuses replaced.
std::string ValidKey(const std::string& key) {
  std::string valid = RepairUtf8(key);
  for (char& c : valid) {
    if (!IsKeyByte(c)) c = '_';
  }
  // Paths that leave their folder or have an empty part.
  while (absl::StrContains(valid, "//")) valid = absl::StrReplaceAll(valid, {{"//", "/"}});
  valid = absl::StrReplaceAll(valid, {{"..", "__"}});
  if (absl::StartsWith(valid, "/")) valid[0] = '_';
  if (absl::EndsWith(valid, "/")) valid.back() = '_';
  return std::string(CutUtf8(valid.empty() ? "_" : valid, kMaxKey));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> MLflowTracker::Make(const accel::v1::MLflowTracker& spec,
                                                             const TrackerContext& context) {
  const TrackerSettings& settings = context.settings;
  Options options;
  options.tracking_uri = settings.Choose(spec.tracking_uri(), "MLFLOW_TRACKING_URI");
  if (!absl::StartsWith(options.tracking_uri, "http://") &&
      !absl::StartsWith(options.tracking_uri, "https://")) {
    return absl::FailedPreconditionError(
        "mlflow needs the http or https address of a tracking server: tracking_uri, or the node's "
        "MLFLOW_TRACKING_URI");
  }
  options.experiment_name = settings.ChooseVariable(
      "MLFLOW_EXPERIMENT_NAME",
      spec.has_experiment_name() ? spec.experiment_name() : context.project);
  options.run_id = settings.ChooseVariable("MLFLOW_RUN_ID", spec.run_id());
  ACCEL_ASSIGN_OR_RETURN(options.tags, NodeTags(settings.Choose("", "MLFLOW_TAGS")));
  if (options.tags.empty()) {
    for (const auto& [key, value] : spec.tags()) options.tags.emplace_back(key, value);
  }
  const std::string nested =
      settings.ChooseVariable("MLFLOW_NESTED_RUN", spec.nested_run() ? "true" : "");
  if (FlagOr(nested, false)) options.parent_run_id = spec.parent_run_id();
  options.run_name = spec.has_run_name() ? spec.run_name() : context.job_id;
  options.description = spec.description();
  options.user = settings.Choose(spec.username(), "MLFLOW_TRACKING_USERNAME");
  if (!options.user.empty()) {
    ACCEL_ASSIGN_OR_RETURN(
        options.password,
        settings.RequireSecret(spec.has_password_secret() ? spec.password_secret()
                                                          : "MLFLOW_TRACKING_PASSWORD"));
  } else {
    options.token =
        settings.Secret(spec.has_token_secret() ? spec.token_secret() : "MLFLOW_TRACKING_TOKEN");
  }
  options.workspace = settings.Choose("", "MLFLOW_WORKSPACE");
  return std::make_unique<MLflowTracker>(std::move(options), context);
}

MLflowTracker::MLflowTracker(Options options, const TrackerContext& context)
    : options_(std::move(options)),
      context_(context),
      api_(JsonApi(context_.make_http(HttpOptions()), options_.tracking_uri,
                   Authorization(options_))),
      run_id_(options_.run_id) {}

std::string MLflowTracker::location() const {
  if (run_id_.empty()) return "";
  if (experiment_id_.empty()) return absl::StrCat(api_.base_url(), "/#/runs/", run_id_);
  return absl::StrCat(api_.base_url(), "/#/experiments/", experiment_id_, "/runs/", run_id_);
}

json MLflowTracker::NewRun() const {
  MLflowPairs tags = options_.tags;
  tags.emplace_back(kJobTag, context_.job_uid);
  tags.emplace_back("mlflow.user", "accel");
  tags.emplace_back("mlflow.source.name", context_.job_id);
  tags.emplace_back("mlflow.source.type", "LOCAL");
  tags.emplace_back("mlflow.runName", options_.run_name);
  if (!options_.description.empty()) tags.emplace_back("mlflow.note.content", options_.description);
  if (!options_.parent_run_id.empty()) {
    tags.emplace_back("mlflow.parentRunId", options_.parent_run_id);
  }
  return {{"experiment_id", experiment_id_},
          {"user_id", "accel"},
          {"run_name", options_.run_name},
          {"start_time", absl::ToUnixMillis(context_.create_time)},
          {"tags", ToEntries(tags)}};
}

absl::StatusOr<std::string> MLflowTracker::OwnRun() {
  ACCEL_ASSIGN_OR_RETURN(experiment_id_,
                         api_.ExperimentId(options_.experiment_name, options_.tags));
  // Creating is not repeatable: an answer that was lost may have made the run.
  ACCEL_ASSIGN_OR_RETURN(const std::string found,
                         api_.FindRun(experiment_id_, kJobTag, context_.job_uid));
  if (!found.empty()) return found;
  return api_.CreateRun(NewRun());
}

absl::Status MLflowTracker::Start(std::optional<int64_t> resume_step) {
  if (run_id_.empty()) {
    ACCEL_ASSIGN_OR_RETURN(run_id_, OwnRun());
  }
  if (options_.run_id.empty() && !resume_step.has_value()) return absl::OkStatus();
  return api_.UpdateRun(run_id_, "RUNNING", 0);
}

absl::Status MLflowTracker::StoreInitConfiguration(const ConfigMap& values) {
  std::vector<json> params;
  for (const auto& [name, value] : values) {
    const std::string text = PythonText(value);
    if (text.size() > kMaxParamValue) {
      WarnOnce(name, absl::StrCat(name, " has ", text.size(), " bytes, mlflow takes ",
                                  kMaxParamValue, ": it is left out"));
      continue;
    }
    params.push_back({{"key", CheckedKey(name)}, {"value", text}});
  }
  return api_.LogBatch(
      run_id_, "params", params, kMaxParams,
      [this](const json& entry, const absl::Status& why) { OnRefused(entry, why); });
}

void MLflowTracker::AddMetric(const std::string& key, double number, const LogCall& call,
                              std::vector<json>* metrics) {
  if (std::isinf(number)) {
    WarnOnce(absl::StrCat(key, " inf"),
             absl::StrCat(key, " is infinite, which mlflow may show as the greatest number"));
  }
  metrics->push_back({{"key", CheckedKey(key)},
                      {"value", NumberOrWord(number)},
                      {"timestamp", absl::ToUnixMillis(call.time)},
                      {"step", call.step.value_or(0)}});
}

absl::Status MLflowTracker::Log(const std::vector<LogCall>& calls) {
  std::vector<json> metrics;
  for (const LogCall& call : calls) {
    for (const auto& [key, value] : call.values) {
      if (value.has_number()) AddMetric(key, value.number(), call, &metrics);
      for (const auto& [part, number] : value.map().values()) {
        AddMetric(absl::StrCat(key, "/", part), number, call, &metrics);
      }
      if (value.has_text()) {
        WarnOnce(key, absl::StrCat(key, " is a text, which is no metric of mlflow: left out"));
      }
    }
  }
  return api_.LogBatch(
      run_id_, "metrics", metrics, kMaxMetrics,
      [this](const json& entry, const absl::Status& why) { OnRefused(entry, why); });
}

absl::Status MLflowTracker::Finish(RunOutcome outcome) {
  return api_.UpdateRun(run_id_, StatusOf(outcome), absl::ToUnixMillis(context_.clock->Now()));
}

std::string MLflowTracker::CheckedKey(const std::string& key) {
  std::string valid = ValidKey(key);
  if (valid != key) {
    WarnOnce(key,
             absl::StrCat(RepairUtf8(key), " is no key that mlflow takes, it is shown as ", valid));
  }
  return valid;
}

void MLflowTracker::OnRefused(const json& entry, const absl::Status& why) {
  const std::string key = entry.value("key", "");
  WarnOnce(absl::StrCat(key, " refused"),
           absl::StrCat("mlflow refused ", key, ", it is left out: ", std::string(why.message())));
}

void MLflowTracker::WarnOnce(const std::string& what, std::string message) {
  if (warned_.insert(what).second) warnings_.push_back(std::move(message));
}

}  // namespace accel::tracking
