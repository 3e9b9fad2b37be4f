#include "server/supervisor/training_reports.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/util/time_util.h"

namespace accel::supervisor {

using accel::internal::v1::CheckpointReport;
using accel::internal::v1::Finished;
using accel::internal::v1::MetricReport;
using accel::internal::v1::Ready;
using accel::internal::v1::StepReport;
using accel::v1::Job;
using accel::v1::MetricRecord;
using accel::v1::Progress;
using google::protobuf::util::TimeUtil;

TrainingReports::TrainingReports(int world_size, std::string job_name,
                                 std::filesystem::path checkpoints, JobRecord& record)
    : record_(record),
      ranks_(static_cast<size_t>(world_size)),
      steps_(world_size),
      checkpoints_(world_size, std::move(job_name), std::move(checkpoints)) {}

void TrainingReports::OnReady(int rank, const Ready& ready) {
  ranks_[rank].ready = true;
  ranks_[rank].step = ready.first_step();
  total_steps_ = ready.total_steps();
  first_step_ = ready.first_step();
  if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.ready; })) return;
  Progress progress;
  progress.set_step(ready.first_step());
  progress.set_total_steps(ready.total_steps());
  progress.set_total_epochs(ready.total_epochs());
  record_.BeginTraining(progress);
  if (record_.state() == Job::STARTING) record_.ChangeState(Job::RUNNING);
}

void TrainingReports::OnStep(int rank, const StepReport& report) {
  ranks_[rank].step = report.step();
  std::optional<MetricRecord> record = steps_.Add(rank, report);
  if (!record.has_value()) return;
  record_.SetProgress(report.step(), report.epoch());
  record_.AddMetrics(*std::move(record));
  RecordHeld(/*all=*/false);
}

void TrainingReports::OnMetrics(const MetricReport& report) {
  MetricRecord record;
  *record.mutable_time() = TimeUtil::MicrosecondsToTimestamp(report.time_us());
  record.set_step(report.step());
  for (const auto& [name, value] : report.values()) {
    (*record.mutable_values())[name].set_number(value);
  }
  // Steps go forward in the record, though the other ranks' reports of them may come later.
  held_.push_back(std::move(record));
  RecordHeld(/*all=*/false);
}

void TrainingReports::OnCheckpoint(int rank, const CheckpointReport& report) {
  if (auto written = checkpoints_.Add(rank, report)) Record(*written);
}

void TrainingReports::OnFinished(int rank, const Finished& finished) {
  ranks_[rank].finished = finished;
  ranks_[rank].step = finished.step();
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.finished; })) {
    record_.SetFinished(finished);
  }
}

void TrainingReports::Close() {
  RecordHeld(/*all=*/true);
  for (const WrittenCheckpoint& written : checkpoints_.TakeComplete()) Record(written);
}

bool TrainingReports::did_its_work() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.finished.has_value() && !rank.finished->stopped();
  });
}

int64_t TrainingReports::steps_done() const {
  int64_t steps = ranks_.front().step;
  for (const Rank& rank : ranks_) steps = std::min(steps, rank.step);
  return std::max<int64_t>(0, steps - first_step_);
}

int64_t TrainingReports::StepBegun(int rank) const {
  const Rank& r = ranks_[static_cast<size_t>(rank)];
  if (!r.ready || r.finished.has_value()) return r.step;
  const bool last = total_steps_ > 0 && r.step >= total_steps_;
  return last ? r.step : r.step + 1;
}

void TrainingReports::RecordHeld(bool all) {
  while (!held_.empty() && (all || !steps_.WaitsFor(held_.front().step()))) {
    record_.AddMetrics(std::move(held_.front()));
    held_.pop_front();
  }
}

void TrainingReports::Record(const WrittenCheckpoint& written) {
  record_.AddCheckpoint(written.checkpoint, written.stall_seconds);
  for (const std::string& name : written.removed) record_.RemoveCheckpoint(name);
}

}  // namespace accel::supervisor
