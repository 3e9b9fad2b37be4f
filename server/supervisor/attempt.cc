#include "server/supervisor/attempt.h"

#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/process.h"
#include "core/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {

using accel::internal::v1::Finished;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerFailure;
using accel::internal::v1::WorkerReport;
using accel::v1::Failure;
using accel::v1::LogRecord;

namespace {

WorkerFailure InternalFailure(std::string message, int64_t step) {
  WorkerFailure failure;
  failure.set_cause(Failure::INTERNAL);
  failure.set_message(std::move(message));
  failure.set_step(step);
  return failure;
}

}  // namespace

Attempt::Attempt(EventLoop& loop, AttemptOptions options, const JobLaunch& launch, int world_size,
                 std::filesystem::path checkpoints, JobRecord& record,
                 std::function<void()> on_over)
    : loop_(loop),
      options_(std::move(options)),
      world_size_(world_size),
      record_(record),
      on_over_(std::move(on_over)),
      reports_(world_size, launch.job().name(), std::move(checkpoints), record),
      out_of_memory_(options_.memory_events),
      cuts_(world_size, [this](const ToWorker& message) {
        if (workers_ != nullptr) workers_->Broadcast(message);
      }) {}

Attempt::~Attempt() {
  for (const EventLoop::TimerId timer : timers_) loop_.Cancel(timer);
}

absl::Status Attempt::Start(int number, int batch_size, const StartWorkers& start_workers) {
  ACCEL_ASSIGN_OR_RETURN(workers_, start_workers(*this));
  accel::v1::Attempt attempt = workers_->Describe(number);
  attempt.set_batch_size(batch_size);
  record_.BeginAttempt(attempt);
  record_.Commit();
  return absl::OkStatus();
}

void Attempt::Kill() {
  if (phase_ == Phase::kOver) return;
  phase_ = Phase::kEnding;
  workers_->Kill();
}

void Attempt::OnReport(int rank, const WorkerReport& report) {
  switch (report.report_case()) {
    case WorkerReport::kReady:
      return reports_.OnReady(rank, report.ready());
    case WorkerReport::kStep:
      return reports_.OnStep(rank, report.step());
    case WorkerReport::kMetrics:
      return reports_.OnMetrics(report.metrics());
    case WorkerReport::kCutReply:
      return cuts_.OnReply(rank, report.cut_reply());
    case WorkerReport::kCheckpoint:
      return reports_.OnCheckpoint(rank, report.checkpoint());
    case WorkerReport::kFailure:
      return OnFailure(rank, report.failure());
    case WorkerReport::kFinished:
      return OnFinished(rank, report.finished());
    case WorkerReport::kWarning:
      return record_.AddWarning(report.warning().subject(), report.warning().message());
    case WorkerReport::kProcessGroup:
      return record_.AddProcessGroup(report.process_group());
    case WorkerReport::REPORT_NOT_SET:
      spdlog::warn("rank {} sent a report that this version does not know", rank);
  }
}

void Attempt::OnFailure(int rank, const WorkerFailure& failure) {
  // What fails after the workers were ended follows from that.
  if (!judging()) return;
  judge_.OnReport(rank, failure);
  Settle();
}

void Attempt::OnFinished(int rank, const Finished& finished) {
  reports_.OnFinished(rank, finished);
  cuts_.OnFinished(rank);
  RunAfter(options_.exit_grace, [this, rank] { KillUnlessExited(rank); });
}

void Attempt::KillUnlessExited(int rank) {
  if (!workers_->rank(rank).running()) return;
  record_.AddWarning("workers", absl::StrCat("rank ", rank, " did not exit within ",
                                             absl::FormatDuration(options_.exit_grace),
                                             " of its end and was killed"));
  hung_.insert(rank);
  workers_->rank(rank).Kill();
}

void Attempt::OnLine(int rank, LogRecord::Source source, std::string text, bool truncated) {
  record_.AddLine(rank, source, std::move(text), truncated);
}

void Attempt::OnChannelEnd(int rank, const absl::Status& status) {
  if (!judging()) return;
  if (!absl::IsDataLoss(status)) {
    // On its way out, usually; OnExit tells how.
    RunAfter(options_.exit_grace, [this, rank] { OnLateExit(rank); });
    return;
  }
  OnFailure(rank, InternalFailure(absl::StrCat("it sent a malformed message: ", status.message()),
                                  reports_.StepBegun(rank)));
}

void Attempt::OnLateExit(int rank) {
  if (!workers_->rank(rank).running() || hung_.count(rank) > 0) return;
  OnFailure(rank, InternalFailure("closed its channel and did not exit", reports_.StepBegun(rank)));
}

void Attempt::OnExit(int rank, int wait_status) {
  spdlog::info("rank {} {}", rank, DescribeWaitStatus(wait_status));
  if (judging() && hung_.count(rank) == 0) {
    RankExit exit;
    exit.rank = rank;
    exit.wait_status = wait_status;
    exit.finished = reports_.finished(rank);
    exit.out_of_memory = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL &&
                         (workers_->rank(rank).saw_out_of_memory() || out_of_memory_.HasRisen());
    exit.step = reports_.StepBegun(rank);
    judge_.OnExit(exit);
  }
  AfterEnd();
}

void Attempt::OnLost(int rank, const std::string& why) {
  if (judging()) {
    WorkerFailure failure;
    failure.set_cause(Failure::MACHINE);
    failure.set_message(why);
    failure.set_step(reports_.StepBegun(rank));
    judge_.OnReport(rank, failure);
  }
  AfterEnd();
}

void Attempt::AfterEnd() {
  if (workers_->running() == 0) {
    Finish();
  } else if (judging() && judge_.failed()) {
    Settle();
  }
}

void Attempt::Settle() {
  if (phase_ == Phase::kRunning) {
    phase_ = Phase::kSettling;
    RunAfter(options_.settle, [this] { EndWorkers(); });
  }
  if (judge_.failed_ranks() == world_size_) EndWorkers();
}

void Attempt::EndWorkers() {
  if (phase_ != Phase::kSettling) return;
  phase_ = Phase::kEnding;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!reports_.finished(rank)) judge_.OnSilence(rank, reports_.StepBegun(rank));
  }
  workers_->CloseChannels();
  RunAfter(options_.close_grace, [this] { workers_->Kill(); });
}

void Attempt::Finish() {
  phase_ = Phase::kOver;
  reports_.Close();
  record_.EndAttempt(judge_.Verdict());
  on_over_();
}

void Attempt::RunAfter(absl::Duration delay, EventLoop::Callback callback) {
  timers_.push_back(loop_.RunAfter(delay, std::move(callback)));
}

}  // namespace accel::supervisor
