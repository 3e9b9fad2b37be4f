#include "core/tracking/tensorboard_tracker.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/crc32c.h"
#include "core/tracking/hparams.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::tensorboard::Event;
using accel::internal::v1::tensorboard::Summary;
using accel::internal::v1::tensorboard::Tensor;

// Each sub-run is a folder with a file in it.
constexpr size_t kMaxRuns = 1000;
// Of 255 that file systems allow.
constexpr size_t kMaxFolderBytes = 200;

std::string SubRunFolder(absl::string_view key, absl::string_view name) {
  const std::string folder = absl::StrReplaceAll(RepairUtf8(absl::StrCat(key, "_", name)),
                                                 {{"/", "_"}, {absl::string_view("\0", 1), "_"}});
  if (folder.size() <= kMaxFolderBytes) return folder;
  return absl::StrCat(CutUtf8(folder, kMaxFolderBytes), absl::StrFormat("-%08x", Crc32c(folder)));
}

void AddText(const std::string& tag, const std::string& text, Event* event) {
  Summary::Value* value = event->mutable_summary()->add_value();
  value->set_tag(tag + "/text_summary");
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(Tensor::STRING);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(RepairUtf8(text));
}

// The event of a row in a run, made when its first value comes.
Event* EventIn(const std::string& folder, const LogCall& call, std::map<std::string, Event>* row) {
  auto [entry, added] = row->try_emplace(folder);
  if (added) {
    entry->second.set_wall_time(WallSeconds(call.time));
    entry->second.set_step(call.step.value_or(0));
  }
  return &entry->second;
}

}  // namespace

absl::Status TensorBoardTracker::Start(std::optional<int64_t> resume_step) {
  resume_step_ = resume_step;
  return RunIn("").status();
}

absl::Status TensorBoardTracker::OnRewind(int64_t step) {
  ACCEL_RETURN_IF_ERROR(FlushAll());
  // New files: only a file's first record voids what others hold.
  runs_.clear();
  resume_step_ = step;
  return RunIn("").status();
}

absl::Status TensorBoardTracker::StoreInitConfiguration(const ConfigMap& values) {
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(options_.folder / "hparams.yml", HParamsYaml(values)));
  ACCEL_ASSIGN_OR_RETURN(TensorBoardRun * main, RunIn(""));
  main->Add(SessionStartEvent(values, clock_->Now()));
  return main->Flush();
}

absl::Status TensorBoardTracker::Log(const std::vector<LogCall>& calls) {
  absl::Status status;
  for (const LogCall& call : calls) {
    status = AddRow(call.sequence, MakeRow(call));
    if (!status.ok()) break;
  }
  // Also after an error: what was added goes out whole rather than staying in the buffers.
  status.Update(FlushAll());
  return status;
}

absl::Status TensorBoardTracker::Finish(RunOutcome outcome) {
  if (!end_written_) {
    ACCEL_ASSIGN_OR_RETURN(TensorBoardRun * main, RunIn(""));
    main->Add(SessionEndEvent(outcome, clock_->Now()));
    ACCEL_RETURN_IF_ERROR(main->Flush());
    end_written_ = true;
  }
  absl::Status status;
  for (auto& [folder, run] : runs_) status.Update(run.Sync());
  return status;
}

std::vector<std::string> TensorBoardTracker::TakeWarnings() { return std::exchange(warnings_, {}); }

TensorBoardTracker::Row TensorBoardTracker::MakeRow(const LogCall& call) {
  Row row;
  for (const auto& [key, value] : call.values) {
    const std::string tag = RepairUtf8(key);
    switch (value.value_case()) {
      case accel::v1::MetricValue::kNumber:
        AddScalar("", tag, value.number(), call, &row);
        break;
      case accel::v1::MetricValue::kText:
        AddText(tag, value.text(), EventIn("", call, &row));
        break;
      case accel::v1::MetricValue::kMap:
        for (const auto& [name, number] : value.map().values()) {
          AddScalar(SubRunFolder(key, name), tag, number, call, &row);
        }
        break;
      case accel::v1::MetricValue::VALUE_NOT_SET:
        WarnOnce(tag, "empty", absl::StrCat(tag, " has no value and is left out"));
        break;
    }
  }
  return row;
}

void TensorBoardTracker::AddScalar(const std::string& folder, const std::string& tag, double number,
                                   const LogCall& call, Row* row) {
  constexpr double kMax = std::numeric_limits<float>::max();
  auto narrowed = std::numeric_limits<float>::infinity();
  if (std::isfinite(number) && std::abs(number) > kMax) {
    narrowed = std::copysign(narrowed, static_cast<float>(number > 0 ? 1 : -1));
    WarnOnce(tag, "range",
             absl::StrCat(tag, ": ", number, " is beyond float32 and is shown as infinity"));
  } else {
    narrowed = static_cast<float>(number);
  }
  Summary::Value* value = EventIn(folder, call, row)->mutable_summary()->add_value();
  value->set_tag(tag);
  value->set_simple_value(narrowed);
}

absl::Status TensorBoardTracker::AddRow(int64_t sequence, const Row& row) {
  for (const auto& [folder, event] : row) {
    if (runs_.size() >= kMaxRuns && runs_.count(folder) == 0) {
      WarnOnce("", "runs",
               absl::StrCat("maps have more than ", kMaxRuns - 1,
                            " names together, further ones such as ", folder, " are left out"));
      continue;
    }
    ACCEL_ASSIGN_OR_RETURN(TensorBoardRun * run, RunIn(folder));
    for (const TensorBoardRun::StepBack& back : run->AddRow(sequence, event)) {
      WarnOnce(back.tag, "step",
               absl::StrCat(back.tag, ": step went back from ", back.from, " to ", back.to,
                            ", tensorboard drops its earlier points from step ", back.to, " on"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorBoardRun*> TensorBoardTracker::RunIn(const std::string& folder) {
  auto run = runs_.find(folder);
  if (run != runs_.end()) return &run->second;
  ACCEL_ASSIGN_OR_RETURN(TensorBoardRun opened,
                         TensorBoardRun::Open(options_.folder / folder, options_.filename_suffix,
                                              clock_->Now(), resume_step_));
  return &runs_.emplace(folder, std::move(opened)).first->second;
}

absl::Status TensorBoardTracker::FlushAll() {
  absl::Status status;
  for (auto& [folder, run] : runs_) status.Update(run.Flush());
  return status;
}

void TensorBoardTracker::WarnOnce(absl::string_view tag, absl::string_view kind,
                                  std::string message) {
  if (warned_.insert(absl::StrCat(kind, " ", tag)).second) warnings_.push_back(std::move(message));
}

}  // namespace accel::tracking
