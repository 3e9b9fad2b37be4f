#include "core/tracking/mlflow/mlflow_api.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking {
namespace {

using nlohmann::json;

constexpr char kPrefix[] = "/api/2.0/mlflow/";

std::string Path(absl::string_view call) { return absl::StrCat(kPrefix, call); }

absl::StatusOr<std::string> TextAt(const json& answer, const char* pointer) {
  const json value = answer.value(json::json_pointer(pointer), json());
  if (value.is_string()) return value.get<std::string>();
  return absl::UnavailableError(absl::StrCat("the server's answer holds no ", pointer));
}

bool Says(const absl::Status& status, absl::string_view code) {
  return absl::StrContains(status.message(), code);
}

}  // namespace

json ToEntries(const MLflowPairs& pairs) {
  json entries = json::array();
  for (const auto& [key, value] : pairs) entries.push_back({{"key", key}, {"value", value}});
  return entries;
}

absl::StatusOr<std::string> MLflowApi::ExperimentId(const std::string& name,
                                                    const MLflowPairs& tags) {
  const std::string get =
      Path(absl::StrCat("experiments/get-by-name?experiment_name=", PercentEncode(name)));
  absl::StatusOr<json> found = api_.Get(get);
  if (!found.ok() && Says(found.status(), "RESOURCE_DOES_NOT_EXIST")) {
    const absl::StatusOr<json> created =
        api_.Post(Path("experiments/create"), {{"name", name}, {"tags", ToEntries(tags)}});
    if (created.ok()) return TextAt(*created, "/experiment_id");
    // Another job made it at the same time.
    if (!Says(created.status(), "RESOURCE_ALREADY_EXISTS")) return created.status();
    found = api_.Get(get);
  }
  if (!found.ok()) return found.status();
  ACCEL_ASSIGN_OR_RETURN(const std::string stage, TextAt(*found, "/experiment/lifecycle_stage"));
  if (stage != "active") {
    return Permanent(absl::FailedPreconditionError(
        absl::StrCat("the experiment \"", name,
                     "\" was deleted on the server: restore it or use another name")));
  }
  return TextAt(*found, "/experiment/experiment_id");
}

absl::StatusOr<std::string> MLflowApi::FindRun(const std::string& experiment_id,
                                               const std::string& tag, const std::string& value) {
  ACCEL_ASSIGN_OR_RETURN(
      const json answer,
      api_.Post(Path("runs/search"), {{"experiment_ids", {experiment_id}},
                                      {"filter", absl::StrCat("tags.`", tag, "` = '", value, "'")},
                                      {"max_results", 1}}));
  const json runs = answer.is_object() ? answer.value("runs", json::array()) : json::array();
  if (runs.empty()) return std::string();
  return TextAt(runs[0], "/info/run_id");
}

absl::StatusOr<std::string> MLflowApi::CreateRun(const json& body) {
  ACCEL_ASSIGN_OR_RETURN(const json answer, api_.Post(Path("runs/create"), body));
  return TextAt(answer, "/run/info/run_id");
}

absl::Status MLflowApi::UpdateRun(const std::string& run_id, absl::string_view status,
                                  int64_t end_time_ms) {
  json body = {{"run_id", run_id}, {"status", std::string(status)}};
  if (end_time_ms > 0) body["end_time"] = end_time_ms;
  const absl::Status updated = api_.Post(Path("runs/update"), body).status();
  return absl::IsInvalidArgument(updated) ? Permanent(updated) : updated;
}

absl::Status MLflowApi::LogBatch(
    const std::string& run_id, const char* kind, const std::vector<json>& entries, size_t limit,
    absl::FunctionRef<void(const json&, const absl::Status&)> on_refused) {
  for (size_t at = 0; at < entries.size(); at += limit) {
    const size_t count = std::min(limit, entries.size() - at);
    ACCEL_RETURN_IF_ERROR(SendRange(run_id, kind, &entries[at], count, on_refused));
  }
  return absl::OkStatus();
}

absl::Status MLflowApi::SendRange(
    const std::string& run_id, const char* kind, const json* first, size_t count,
    absl::FunctionRef<void(const json&, const absl::Status&)> on_refused) {
  const absl::Status sent =
      api_.Post(Path("runs/log-batch"),
                {{"run_id", run_id}, {kind, std::vector<json>(first, first + count)}})
          .status();
  if (!absl::IsInvalidArgument(sent)) return sent;
  // Not about the entries: the run is gone.
  if (Says(sent, "RESOURCE_DOES_NOT_EXIST") || Says(sent, "must be in the 'active' state")) {
    return Permanent(sent);
  }
  if (count == 1) {
    on_refused(*first, sent);
    return absl::OkStatus();
  }
  ACCEL_RETURN_IF_ERROR(SendRange(run_id, kind, first, count / 2, on_refused));
  return SendRange(run_id, kind, first + count / 2, count - count / 2, on_refused);
}

}  // namespace accel::tracking
