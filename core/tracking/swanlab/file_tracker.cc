#include "core/tracking/swanlab/file_tracker.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking::swanlab {
namespace {

using accel::internal::v1::swanlab::Finish;
using accel::internal::v1::swanlab::Record;
using accel::internal::v1::swanlab::Save;
using accel::internal::v1::swanlab::Scalar;
using accel::internal::v1::swanlab::Start;

// Their mark and version 2.
constexpr absl::string_view kHeader = ":SWL\xD6\xE1\x02";

// Theirs: rows count from 1.
constexpr int64_t kStartNumber = -1;
constexpr int64_t kFinishNumber = -2;
constexpr int64_t kConfigNumber = -3;
constexpr int kTypeNumber = 1;
constexpr int kSaveConfig = 1;
constexpr int kResumeAllow = 1;
constexpr int kFinished = 1;
constexpr int kCrashed = 2;
constexpr int kAborted = 3;

void SetTime(absl::Time time, accel::internal::v1::swanlab::Time* out) {
  const int64_t nanos = absl::ToUnixNanos(time);
  out->set_seconds(absl::ToUnixSeconds(time));
  out->set_nanos(static_cast<int32_t>(nanos - absl::ToUnixSeconds(time) * 1'000'000'000));
}

// The run folder of an earlier process, or the name of a new one.
std::filesystem::path RunFolder(const std::filesystem::path& folder, const std::string& id,
                                absl::Time now) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, "run-") && absl::EndsWith(name, absl::StrCat("-", id))) {
      found.push_back(entry.path());
    }
  }
  if (!found.empty()) return *std::min_element(found.begin(), found.end());
  return folder / absl::StrCat("run-",
                               absl::FormatTime("%Y%m%d_%H%M%S", now, absl::LocalTimeZone()), "-",
                               id);
}

}  // namespace

absl::Status FileTracker::Start(std::optional<int64_t> /*resume_step*/) {
  run_folder_ = RunFolder(folder_, options_.id, clock_->Now());
  ACCEL_ASSIGN_OR_RETURN(
      log_, BlockLog::Open(run_folder_ / absl::StrCat("run-", options_.id, ".swanlab"), kHeader,
                           [this](absl::string_view record) { Learn(record); }));
  if (has_start_) return absl::OkStatus();
  Record start = StartRecord();
  Add(&start, kStartNumber);
  ACCEL_RETURN_IF_ERROR(log_->Flush());
  has_start_ = true;
  return absl::OkStatus();
}

absl::Status FileTracker::StoreInitConfiguration(const ConfigMap& values) {
  if (!has_config_) {
    Record record;
    Save* save = record.mutable_save();
    save->set_name("config.yaml");
    save->set_target_path("config.yaml");
    save->set_type(kSaveConfig);
    save->set_payload(ConfigText(values));
    Add(&record, kConfigNumber);
    has_config_ = true;
  }
  return log_->Flush();
}

absl::Status FileTracker::Log(const std::vector<LogCall>& calls) {
  const std::vector<Point> points = points_.Of(calls);
  if (!points.empty() && has_finish_) {
    return Permanent(absl::FailedPreconditionError(
        absl::StrCat(run_folder_.string(), " is finished and takes no more values")));
  }
  for (const Point& point : points) {
    Record record;
    Scalar* scalar = record.mutable_scalar();
    scalar->set_key(point.key);
    scalar->set_step(point.step);
    scalar->set_type(kTypeNumber);
    SetTime(point.time, scalar->mutable_timestamp());
    scalar->mutable_value()->set_number(point.value);
    Add(&record, ++rows_);
  }
  // They stay buffered where the write fails.
  points_.Hold(points);
  return log_->Flush();
}

absl::Status FileTracker::Finish(RunOutcome outcome) {
  if (!has_finish_) {
    Record record;
    auto* finish = record.mutable_finish();
    switch (outcome) {
      case RunOutcome::kSucceeded:
        finish->set_state(kFinished);
        break;
      case RunOutcome::kFailed:
        finish->set_state(kCrashed);
        finish->set_error("the job failed");
        break;
      case RunOutcome::kCancelled:
        finish->set_state(kAborted);
        break;
    }
    SetTime(clock_->Now(), finish->mutable_finished_at());
    Add(&record, kFinishNumber);
    has_finish_ = true;
    omissions_.SayTotals();
  }
  ACCEL_RETURN_IF_ERROR(log_->Flush());
  return log_->Sync();
}

void FileTracker::Learn(absl::string_view bytes) {
  Record record;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  rows_ = std::max(rows_, record.num());
  has_start_ = has_start_ || record.has_start();
  has_config_ = has_config_ || record.has_save();
  has_finish_ = has_finish_ || record.has_finish();
  if (record.has_scalar()) points_.Held(record.scalar().key(), record.scalar().step());
}

void FileTracker::Add(Record* record, int64_t number) {
  record->set_num(number);
  SetTime(clock_->Now(), record->mutable_timestamp());
  log_->Add(record->SerializeAsString());
}

Record FileTracker::StartRecord() const {
  Record record;
  auto* start = record.mutable_start();
  start->set_project(options_.project);
  start->set_workspace(options_.workspace);
  start->set_public_(options_.is_public);
  start->set_name(options_.experiment_name);
  start->set_description(options_.description);
  for (const std::string& tag : options_.tags) start->add_tags(tag);
  start->set_group(options_.group);
  start->set_job_type(options_.job_type);
  start->set_id(options_.id);
  start->set_resume(kResumeAllow);
  SetTime(clock_->Now(), start->mutable_started_at());
  return record;
}

}  // namespace accel::tracking::swanlab
