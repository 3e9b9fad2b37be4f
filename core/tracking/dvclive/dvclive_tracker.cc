#include "core/tracking/dvclive/dvclive_tracker.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/hparams.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/json_values.h"

namespace accel::tracking {
namespace {

using accel::v1::MetricValue;
using nlohmann::json;

constexpr char kDvcYaml[] = "dvc.yaml";
constexpr char kSummaryFile[] = "metrics.json";
constexpr char kParamsFile[] = "params.yaml";
constexpr char kStep[] = "step";
// Leaves room for ".tsv" in a name of 255 bytes.
constexpr size_t kMaxPart = 240;

// `key` as a path below a folder: the parts between its slashes, none of which leads out of it.
std::string PathOf(absl::string_view key) {
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(key, '/')) {
    std::string name = absl::StrReplaceAll(RepairUtf8(part), {{absl::string_view("\0", 1), "_"}});
    name = std::string(CutUtf8(name, kMaxPart));
    const bool leads_out = name.empty() || name == "." || name == "..";
    parts.push_back(leads_out ? "_" : std::move(name));
  }
  return absl::StrJoin(parts, "/");
}

// As Python's csv writes it between tabs.
std::string Field(const std::string& text) {
  if (text.find_first_of("\t\n\r\"") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string TextOf(const MetricValue& value) {
  return value.has_text() ? RepairUtf8(value.text()) : PythonText(value.number());
}

// JSON has no numbers for these; dvclive's words for them.
json SummaryValue(const MetricValue& value) {
  const bool is_number = value.has_number() && std::isfinite(value.number());
  return is_number ? json(value.number()) : json(TextOf(value));
}

// Where the last whole row of a history ends, and its step; 0 and -1 before the first.
std::pair<size_t, int64_t> LastRow(absl::string_view rows) {
  size_t end = 0;
  int64_t step = -1;
  bool quoted = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == '"') quoted = !quoted;
    if (rows[i] != '\n' || quoted) continue;
    int64_t value = -1;
    const absl::string_view row = rows.substr(end, i - end);
    // The header is no number.
    if (absl::SimpleAtoi(row.substr(0, row.find('\t')), &value)) step = std::max(step, value);
    end = i + 1;
  }
  return {end, step};
}

absl::Status MakeEmptyFile(const std::filesystem::path& path) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return fd.valid() ? absl::OkStatus() : ErrnoStatus("cannot create", path, errno);
}

// False where a metric of a part of the key's name has taken the place.
bool SetIn(const std::string& path, json value, json* summary) {
  json* node = summary;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (node->is_null()) *node = json::object();
    if (!node->is_object()) return false;
    node = &(*node)[std::string(part)];
  }
  if (node->is_object()) return false;
  *node = std::move(value);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> DVCLiveTracker::Make(const accel::v1::DVCLiveTracker& spec,
                                                              const TrackerContext& context) {
  const std::string name = spec.has_dir() ? spec.dir() : "dvclive";
  return std::make_unique<DVCLiveTracker>(context.folder / "dvclive", name, context.files);
}

absl::Status DVCLiveTracker::Start(std::optional<int64_t> /*resume_step*/) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder_ / name_));
  const std::string yaml =
      absl::StrCat("params:\n- ", name_, "/", kParamsFile, "\nmetrics:\n- ", name_, "/",
                   kSummaryFile, "\nplots:\n- ", name_, "/plots/metrics:\n    x: step\n");
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(folder_ / kDvcYaml, yaml));
  const absl::StatusOr<std::string> summary = files_->Read(folder_ / name_ / kSummaryFile);
  if (absl::IsNotFound(summary.status())) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(summary.status());
  summary_ = json::parse(*summary, nullptr, /*allow_exceptions=*/false);
  if (!summary_.is_object()) summary_ = json::object();
  return absl::OkStatus();
}

absl::Status DVCLiveTracker::StoreInitConfiguration(const ConfigMap& values) {
  return files_->WriteDurably(folder_ / name_ / kParamsFile, HParamsYaml(values));
}

absl::Status DVCLiveTracker::Log(const std::vector<LogCall>& calls) {
  for (const LogCall& call : calls) {
    for (const auto& [key, value] : call.values) {
      if (!value.has_map()) {
        ACCEL_RETURN_IF_ERROR(AddValue(key, value, call.step));
        continue;
      }
      for (const auto& [name, number] : value.map().values()) {
        MetricValue one;
        one.set_number(number);
        ACCEL_RETURN_IF_ERROR(AddValue(absl::StrCat(key, "/", name), one, call.step));
      }
    }
    summary_[kStep] = call.step.value_or(highest_step_);
  }
  for (auto& [path, history] : histories_) {
    ACCEL_RETURN_IF_ERROR(history.file.Append(history.pending));
    history.pending.clear();
  }
  return files_->WriteDurably(folder_ / name_ / kSummaryFile,
                              summary_.dump(4, ' ', false, json::error_handler_t::replace) + "\n");
}

absl::Status DVCLiveTracker::AddValue(const std::string& key, const MetricValue& value,
                                      std::optional<int64_t> given_step) {
  if (value.value_case() == MetricValue::VALUE_NOT_SET) {
    omissions_.Note(key, "has no value, left out");
    return absl::OkStatus();
  }
  const std::string path = PathOf(key);
  if (path != key) omissions_.Note(key, absl::StrCat("is stored as ", path));
  ACCEL_ASSIGN_OR_RETURN(History* const history, HistoryOf(path));
  const int64_t step = given_step.value_or(history->last_step + 1);
  highest_step_ = std::max(highest_step_, step);
  if (step > history->last_step) {
    absl::StrAppend(&history->pending, step, "\t", Field(TextOf(value)), "\n");
    history->last_step = step;
  }
  if (path == kStep || !SetIn(path, SummaryValue(value), &summary_)) {
    omissions_.Note(key, "is not in metrics.json, where another metric has its place");
  }
  return absl::OkStatus();
}

absl::StatusOr<DVCLiveTracker::History*> DVCLiveTracker::HistoryOf(const std::string& path) {
  const auto known = histories_.find(path);
  if (known != histories_.end()) return &known->second;
  const std::filesystem::path file =
      folder_ / name_ / "plots" / "metrics" / absl::StrCat(path, ".tsv");
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(file.parent_path()));
  absl::StatusOr<std::string> rows = files_->Read(file);
  if (absl::IsNotFound(rows.status())) {
    ACCEL_RETURN_IF_ERROR(MakeEmptyFile(file));
    rows = "";
  }
  ACCEL_RETURN_IF_ERROR(rows.status());
  const auto [end, step] = LastRow(*rows);
  if (end < rows->size() && truncate(file.c_str(), static_cast<off_t>(end)) != 0) {
    return ErrnoStatus("cannot cut back", file, errno);
  }
  History history{AppendFile(file, static_cast<off_t>(end)), step, ""};
  if (end == 0) {
    const std::string column = path.substr(path.rfind('/') + 1);
    history.pending = absl::StrCat("step\t", Field(column), "\n");
  }
  return &histories_.emplace(path, std::move(history)).first->second;
}

absl::Status DVCLiveTracker::Finish(RunOutcome /*outcome*/) {
  for (const auto& [path, history] : histories_) {
    ACCEL_RETURN_IF_ERROR(history.file.Sync());
  }
  omissions_.SayTotals();
  return absl::OkStatus();
}

}  // namespace accel::tracking
