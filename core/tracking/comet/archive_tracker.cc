#include "core/tracking/comet/archive_tracker.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/json_values.h"
#include "core/tracking/run_identity.h"
#include "core/tracking/zip_archive.h"

namespace accel::tracking::comet {
namespace {

using nlohmann::json;

// Members of RowFile's state.
constexpr char kStartMs[] = "start_ms";
constexpr char kHasConfig[] = "has_config";
constexpr char kPoints[] = "points";

constexpr int64_t kSampledPoints = 15'000;

void AddMessage(const char* type, json payload, std::string* lines) {
  absl::StrAppend(lines, DumpJson({{"type", type}, {"payload", std::move(payload)}}), "\n");
}

void AddOther(const std::string& key, json value, std::string* lines) {
  AddMessage("log_other", {{"key", key}, {"value", std::move(value)}}, lines);
}

json TextOrNull(const std::string& text) { return text.empty() ? json() : json(RepairUtf8(text)); }

const char* StrategyOf(ExperimentOptions::Mode mode) {
  switch (mode) {
    case ExperimentOptions::Mode::kCreate:
      return "create";
    case ExperimentOptions::Mode::kGet:
      return "get";
    case ExperimentOptions::Mode::kGetOrCreate:
      return "get_or_create";
  }
  return "create";
}

}  // namespace

absl::Status ArchiveTracker::Start(std::optional<int64_t> /*resume_step*/) {
  location_ = folder_ / options_.key;
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(location_));
  ACCEL_ASSIGN_OR_RETURN(
      messages_, RowFile::Open(location_ / "messages.json", location_ / "position.json", files_));
  if (messages_->state().contains(kStartMs)) return absl::OkStatus();
  std::string lines;
  AddOther("offline_experiment", true, &lines);
  if (!options_.name.empty()) AddOther("Name", RepairUtf8(options_.name), &lines);
  return messages_->Append(
      lines, 0,
      {{kStartMs, Milliseconds(clock_->Now())}, {kHasConfig, false}, {kPoints, json::object()}});
}

absl::Status ArchiveTracker::StoreInitConfiguration(const ConfigMap& values) {
  json state = messages_->state();
  if (state[kHasConfig]) return absl::OkStatus();
  std::string lines;
  for (const auto& [key, value] : values) {
    const json param = {{"paramName", RepairUtf8(key)},
                        {"paramValue", ConfigJson(value)},
                        {"step", nullptr},
                        {"source", "manual"}};
    AddMessage("parameter_msg",
               {{"local_timestamp", Milliseconds(clock_->Now())}, {"param", param}}, &lines);
  }
  state[kHasConfig] = true;
  return messages_->Append(lines, messages_->sequence(), std::move(state));
}

absl::Status ArchiveTracker::Log(const std::vector<LogCall>& calls) {
  Messages messages;
  int64_t sequence = messages_->sequence();
  for (const LogCall& call : calls) {
    if (call.sequence <= sequence) continue;
    AddMessages(call, &messages, &omissions_);
    sequence = call.sequence;
  }
  if (sequence == messages_->sequence()) return absl::OkStatus();
  std::string lines;
  json state = messages_->state();
  for (const Metric& metric : messages.metrics) {
    const json body = {{"metricName", metric.name},
                       {"metricValue", NumberOrWord(metric.value)},
                       {"step", metric.step.has_value() ? json(*metric.step) : json()},
                       {"epoch", nullptr}};
    AddMessage("metric_msg", {{"local_timestamp", metric.time_ms}, {"metric", body}}, &lines);
    json& points = state[kPoints][metric.name];
    points = points.is_null() ? 1 : points.get<int64_t>() + 1;
  }
  for (const auto& [key, text] : messages.others) AddOther(key, text, &lines);
  return messages_->Append(lines, sequence, std::move(state));
}

absl::Status ArchiveTracker::Finish(RunOutcome outcome) {
  const std::filesystem::path archive =
      folder_ /
      absl::StrCat(options_.key, "-", DerivedName(options_.key, "comet archive", 6), ".zip");
  ACCEL_RETURN_IF_ERROR(WriteZip(archive, {{"experiment.json", ExperimentJson(outcome), {}},
                                           {"messages.json", "", messages_->path()}}));
  location_ = archive;
  SayWhatIsSampled();
  omissions_.SayTotals();
  return absl::OkStatus();
}

std::string ArchiveTracker::ExperimentJson(RunOutcome outcome) const {
  const bool failed = outcome == RunOutcome::kFailed;
  json tags = json::array();
  for (const std::string& tag : options_.tags) tags.push_back(RepairUtf8(tag));
  return DumpJson({{"offline_id", options_.key},
                   {"project_name", TextOrNull(options_.project)},
                   {"workspace", TextOrNull(options_.workspace)},
                   {"start_time", messages_->state()[kStartMs]},
                   {"stop_time", Milliseconds(clock_->Now())},
                   {"tags", std::move(tags)},
                   {"resume_strategy", StrategyOf(options_.mode)},
                   {"user_provided_experiment_key", true},
                   {"customer_error_reported", failed},
                   {"customer_error_message", failed ? json("the job failed") : json()}});
}

void ArchiveTracker::SayWhatIsSampled() {
  int64_t most = 0;
  for (const auto& [name, points] : messages_->state()[kPoints].items()) {
    most = std::max(most, points.get<int64_t>());
  }
  if (most <= kSampledPoints) return;
  omissions_.Say(absl::StrCat("comet upload sends ", kSampledPoints,
                              " points of a metric, chosen by chance; COMET_OFFLINE_SAMPLING_SIZE=",
                              most, " makes it send all of this run"));
}

}  // namespace accel::tracking::comet
