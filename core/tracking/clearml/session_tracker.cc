#include "core/tracking/clearml/session_tracker.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/zip_archive.h"

namespace accel::tracking::clearml {
namespace {

using nlohmann::json;

constexpr char kTaskFile[] = "task.json";
constexpr char kMetricsFile[] = "metrics.jsonl";
constexpr char kLogFile[] = "log.jsonl";

json TaskJson(const std::string& id, const TaskOptions& options) {
  json tags = json::array();
  for (const std::string& tag : options.tags) tags.push_back(RepairUtf8(tag));
  return {{"id", id},
          {"name", RepairUtf8(options.name)},
          {"project_name", RepairUtf8(options.project)},
          {"type", "training"},
          {"comment", RepairUtf8(options.comment)},
          {"tags", std::move(tags)},
          {"execution", {{"artifacts", json::array()}}},
          {"offline_folder", ""},
          {"offline_output_models", json::array()}};
}

// Null where the job succeeded.
const char* EndText(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return nullptr;
    case RunOutcome::kFailed:
      return "the job failed";
    case RunOutcome::kCancelled:
      return "the job was cancelled";
  }
  return nullptr;
}

}  // namespace

absl::Status SessionTracker::Start(std::optional<int64_t> /*resume_step*/) {
  location_ = folder_ / id_;
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(location_));
  ACCEL_ASSIGN_OR_RETURN(
      metrics_, RowFile::Open(location_ / kMetricsFile, location_ / "position.json", files_));
  return absl::OkStatus();
}

absl::Status SessionTracker::StoreInitConfiguration(const ConfigMap& values) {
  json task = TaskJson(id_, options_);
  task["configuration"] = Configuration(values);
  return files_->WriteDurably(location_ / kTaskFile, DumpJson(task));
}

absl::Status SessionTracker::Log(const std::vector<LogCall>& calls) {
  json events = json::array();
  int64_t sequence = metrics_->sequence();
  for (const LogCall& call : calls) {
    if (call.sequence <= sequence) continue;
    AddEvents(call, id_, &events, &omissions_);
    sequence = call.sequence;
  }
  if (sequence == metrics_->sequence()) return absl::OkStatus();
  const std::string line = events.empty() ? "" : DumpJson(events) + "\n";
  return metrics_->Append(line, sequence, json::object());
}

absl::Status SessionTracker::Finish(RunOutcome outcome) {
  std::vector<ZipMember> members = {{kTaskFile, "", location_ / kTaskFile}};
  // The importer takes a session without metrics, but not one with an empty file of them.
  std::error_code error;
  if (std::filesystem::file_size(metrics_->path(), error) > 0) {
    members.push_back({kMetricsFile, "", metrics_->path()});
  }
  if (const char* const text = EndText(outcome); text != nullptr) {
    const json event = {{"timestamp", absl::ToUnixMillis(clock_->Now())},
                        {"type", "log"},
                        {"task", id_},
                        {"level", "error"},
                        {"worker", "accel"},
                        {"msg", text}};
    members.push_back({kLogFile, DumpJson(json::array({event})) + "\n", {}});
  }
  const std::filesystem::path archive = folder_ / absl::StrCat(id_, ".zip");
  ACCEL_RETURN_IF_ERROR(WriteZip(archive, members));
  location_ = archive;
  omissions_.SayTotals();
  return absl::OkStatus();
}

}  // namespace accel::tracking::clearml
