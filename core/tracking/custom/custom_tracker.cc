#include "core/tracking/custom/custom_tracker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"

namespace accel::tracking {
namespace {

using nlohmann::json;

json ToJson(const accel::v1::MetricValue& value) {
  if (value.has_number()) return NumberOrWord(value.number());
  if (value.has_text()) return RepairUtf8(value.text());
  json map = json::object();
  for (const auto& [name, number] : value.map().values()) {
    map[RepairUtf8(name)] = NumberOrWord(number);
  }
  return map;
}

const char* NameOf(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return "succeeded";
    case RunOutcome::kFailed:
      return "failed";
    case RunOutcome::kCancelled:
      return "cancelled";
  }
  return "failed";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> CustomTracker::Make(const accel::v1::CustomTracker& spec,
                                                             const TrackerContext& context) {
  const auto found = context.custom.find(spec.name());
  if (found == context.custom.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no tracker \"", spec.name(), "\" is registered on this node"));
  }
  std::vector<std::string> headers;
  if (const std::string token = context.settings.Secret(spec.name()); !token.empty()) {
    headers.push_back(absl::StrCat("Authorization: Bearer ", token));
  }
  return std::make_unique<CustomTracker>(
      spec, JsonApi(context.make_http(HttpOptions()), found->second, std::move(headers)), context);
}

absl::Status CustomTracker::Post(std::vector<json> lines) {
  std::string body;
  for (json& line : lines) {
    line["job"] = context_.job_id;
    line["uid"] = context_.job_uid;
    absl::StrAppend(&body, DumpJson(line), "\n");
  }
  const absl::Status sent = api_.Send("POST", "", std::move(body), "application/x-ndjson").status();
  return absl::IsInvalidArgument(sent) ? Permanent(sent) : sent;
}

absl::Status CustomTracker::Start(std::optional<int64_t> resume_step) {
  json options = json::object();
  for (const auto& [key, value] : spec_.options()) options[RepairUtf8(key)] = RepairUtf8(value);
  json line = {{"event", "start"}, {"project", context_.project}, {"options", options}};
  line["resume_step"] = resume_step.has_value() ? json(*resume_step) : json();
  return Post({line});
}

absl::Status CustomTracker::StoreInitConfiguration(const ConfigMap& values) {
  json config = json::object();
  for (const auto& [name, value] : values) config[RepairUtf8(name)] = ConfigJson(value);
  return Post({{{"event", "config"}, {"values", config}}});
}

absl::Status CustomTracker::Log(const std::vector<LogCall>& calls) {
  std::vector<json> lines;
  for (const LogCall& call : calls) {
    json values = json::object();
    for (const auto& [key, value] : call.values) values[RepairUtf8(key)] = ToJson(value);
    lines.push_back({{"event", "log"},
                     {"sequence", call.sequence},
                     {"step", call.step.value_or(0)},
                     {"time", static_cast<double>(absl::ToUnixMicros(call.time)) / 1e6},
                     {"attempt", call.attempt},
                     {"values", values}});
  }
  return Post(std::move(lines));
}

absl::Status CustomTracker::OnRewind(int64_t step) {
  return Post({{{"event", "rewind"}, {"step", step}}});
}

absl::Status CustomTracker::Finish(RunOutcome outcome) {
  return Post({{{"event", "finish"}, {"outcome", NameOf(outcome)}}});
}

}  // namespace accel::tracking
