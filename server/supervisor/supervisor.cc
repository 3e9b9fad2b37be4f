#include "server/supervisor/supervisor.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/supervisor/job_folder.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::CheckpointReport;
using accel::internal::v1::Cut;
using accel::internal::v1::Finished;
using accel::internal::v1::FromSupervisor;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::JobStatus;
using accel::internal::v1::MetricReport;
using accel::internal::v1::Ready;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::StepReport;
using accel::internal::v1::ToSupervisor;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerFailure;
using accel::internal::v1::WorkerReport;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using accel::v1::MetricRecord;
using accel::v1::Progress;
using google::protobuf::util::TimeUtil;

// How long the daemon's connections may take to read the last message.
constexpr absl::Duration kTellGrace = absl::Seconds(1);

int WorldSize(const JobLaunch& launch) {
  const accel::v1::JobSpec& spec = launch.job().spec();
  return spec.has_num_processes() ? spec.num_processes() : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Open(EventLoop& loop,
                                                             const SupervisorOptions& options) {
  const JobFolder folder{options.job_dir};
  ACCEL_ASSIGN_OR_RETURN(Fd lock, folder.Lock());
  ACCEL_ASSIGN_OR_RETURN(JobLaunch launch, folder.ReadLaunch());
  ACCEL_ASSIGN_OR_RETURN(JobStatus status, folder.ReadStatus());
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder.checkpoints()));
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<record::Writer> writer,
                         record::Writer::Open(folder.record()));
  std::unique_ptr<Supervisor> supervisor(new Supervisor(
      loop, options, std::move(launch), std::move(lock), std::move(writer), std::move(status)));
  Supervisor* const self = supervisor.get();
  ACCEL_ASSIGN_OR_RETURN(supervisor->control_,
                         ControlServer::Listen(
                             loop, options.job_dir, [self] { return self->record_.Committed(); },
                             [self](const ToSupervisor& command) { self->OnCommand(command); }));
  return supervisor;
}

Supervisor::Supervisor(EventLoop& loop, const SupervisorOptions& options, JobLaunch launch, Fd lock,
                       std::unique_ptr<record::Writer> writer, JobStatus status)
    : loop_(loop),
      options_(options),
      launch_(std::move(launch)),
      lock_(std::move(lock)),
      world_size_(WorldSize(launch_)),
      ranks_(static_cast<size_t>(world_size_)),
      record_(loop, *options.clock, std::move(writer), std::move(status), [this] { OnCommit(); }),
      trackers_(loop, *options.clock,
                [this](const std::string& subject, const std::string& message) {
                  record_.AddWarning(subject, message);
                }),
      steps_(world_size_),
      checkpoints_(world_size_, launch_.job().name(), JobFolder{options.job_dir}.checkpoints()),
      out_of_memory_(options.memory_events),
      cuts_(world_size_, [this](const ToWorker& message) {
        if (workers_ != nullptr) workers_->Broadcast(message);
      }) {}

Supervisor::~Supervisor() = default;

void Supervisor::Start() {
  if (record_.state() != Job::STARTING) record_.ChangeState(Job::STARTING);
  trackers_.Start(launch_.job(), options_.job_dir, JobFolder{options_.job_dir}.record());
  const int attempt = record_.status().attempts_size() + 1;
  auto workers = StartWorkers(attempt);
  if (!workers.ok()) {
    Failure failure;
    failure.set_cause(Failure::INTERNAL);
    failure.set_message(absl::StrCat("cannot start the workers: ", workers.status().message()));
    start_failure_ = std::move(failure);
    FinishJob();
    return;
  }
  workers_ = *std::move(workers);
  record_.BeginAttempt(workers_->Describe(attempt));
  record_.Commit();
}

absl::StatusOr<std::unique_ptr<WorkerSet>> Supervisor::StartWorkers(int attempt) {
  const fs::path checkpoints = JobFolder{options_.job_dir}.checkpoints();
  StartAttempt start;
  start.set_job_name(launch_.job().name());
  *start.mutable_spec() = launch_.job().spec();
  *start.mutable_resolved_accelerator() = launch_.job().resolved_accelerator();
  start.set_attempt(attempt);
  *start.mutable_data_roots() = launch_.data_roots();
  start.set_checkpoints_dir(checkpoints.string());
  start.set_resume_dir(launch_.resume_dir());
  start.set_next_checkpoint(NextCheckpoint(
      checkpoints, launch_.job().resolved_accelerator().project_config().iteration()));
  return WorkerSet::Start(loop_, *options_.launcher, launch_, std::move(start), world_size_, *this);
}

void Supervisor::OnCommand(const ToSupervisor& command) {
  switch (command.message_case()) {
    case ToSupervisor::kStop:
      return Stop(absl::Seconds(std::max(0.0, command.stop().grace_seconds())));
    case ToSupervisor::kCheckpoint:
      return RequestCheckpoint();
    case ToSupervisor::MESSAGE_NOT_SET:
      spdlog::warn("control: a command that this version does not know");
  }
}

void Supervisor::Stop(absl::Duration grace) {
  if (phase_ != Phase::kRunning) {
    spdlog::info("asked to stop: the job is ending already");
    return;
  }
  const absl::Duration deadline = options_.clock->Monotonic() + grace;
  if (deadline < stop_deadline_) {
    stop_deadline_ = deadline;
    loop_.RunAfter(grace, [this] {
      if (phase_ != Phase::kRunning && phase_ != Phase::kSettling) return;
      Note("the grace to stop is over: the workers are killed");
      phase_ = Phase::kEnding;
      workers_->Kill();
    });
  }
  if (stop_requested_) return;
  stop_requested_ = true;
  Note(absl::StrCat("asked to stop within ", absl::FormatDuration(grace)));
  record_.ChangeState(Job::STOPPING);
  cuts_.Request(Cut::STOP);
}

void Supervisor::RequestCheckpoint() {
  if (record_.state() != Job::RUNNING || phase_ != Phase::kRunning) {
    Note("asked for a checkpoint: the job does not train");
    return;
  }
  Note("asked for a checkpoint");
  cuts_.Request(Cut::CHECKPOINT);
}

void Supervisor::OnReport(int rank, const WorkerReport& report) {
  switch (report.report_case()) {
    case WorkerReport::kReady:
      return OnReady(rank, report.ready());
    case WorkerReport::kStep:
      return OnStep(rank, report.step());
    case WorkerReport::kMetrics:
      return OnMetrics(report.metrics());
    case WorkerReport::kCutReply:
      return cuts_.OnReply(rank, report.cut_reply());
    case WorkerReport::kCheckpoint:
      if (auto written = checkpoints_.Add(rank, report.checkpoint())) AddCheckpoint(*written);
      return;
    case WorkerReport::kFailure:
      return OnFailure(rank, report.failure());
    case WorkerReport::kFinished:
      return OnFinished(rank, report.finished());
    case WorkerReport::kWarning:
      return record_.AddWarning(report.warning().subject(), report.warning().message());
    case WorkerReport::REPORT_NOT_SET:
      spdlog::warn("rank {} sent a report that this version does not know", rank);
  }
}

void Supervisor::OnReady(int rank, const Ready& ready) {
  ranks_[rank].ready = true;
  ranks_[rank].step = ready.first_step();
  total_steps_ = ready.total_steps();
  if (!std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.ready; })) return;
  Progress progress;
  progress.set_step(ready.first_step());
  progress.set_total_steps(ready.total_steps());
  progress.set_total_epochs(ready.total_epochs());
  record_.BeginTraining(progress);
  if (record_.state() == Job::STARTING) record_.ChangeState(Job::RUNNING);
}

void Supervisor::OnStep(int rank, const StepReport& report) {
  ranks_[rank].step = report.step();
  std::optional<MetricRecord> record = steps_.Add(rank, report);
  if (!record.has_value()) return;
  record_.SetProgress(report.step(), report.epoch());
  record_.AddMetrics(*std::move(record));
}

void Supervisor::OnMetrics(const MetricReport& report) {
  MetricRecord record;
  *record.mutable_time() = TimeUtil::MicrosecondsToTimestamp(report.time_us());
  record.set_step(report.step());
  for (const auto& [name, value] : report.values()) {
    (*record.mutable_values())[name].set_number(value);
  }
  record_.AddMetrics(std::move(record));
}

void Supervisor::OnFailure(int rank, const WorkerFailure& failure) {
  // What fails after the supervisor ended the workers follows from that.
  if (phase_ != Phase::kRunning && phase_ != Phase::kSettling) return;
  judge_.OnReport(rank, failure);
  Settle();
}

void Supervisor::OnFinished(int rank, const Finished& finished) {
  ranks_[rank].finished = finished;
  ranks_[rank].step = finished.step();
  cuts_.OnFinished(rank);
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.finished; })) {
    // The last steps may have had no report of their own.
    const Progress& progress = record_.status().progress();
    if (finished.step() > progress.step()) record_.SetProgress(finished.step(), progress.epoch());
    if (finished.has_early_stopped()) record_.SetEarlyStopped(finished.early_stopped());
  }
  loop_.RunAfter(options_.exit_grace, [this, rank] { KillUnlessExited(rank); });
}

void Supervisor::KillUnlessExited(int rank) {
  if (!workers_->rank(rank).running()) return;
  record_.AddWarning("workers", absl::StrCat("rank ", rank, " did not exit within ",
                                             absl::FormatDuration(options_.exit_grace),
                                             " of its end and was killed"));
  ranks_[rank].hung = true;
  workers_->rank(rank).Kill();
}

void Supervisor::AddCheckpoint(const WrittenCheckpoint& written) {
  record_.AddCheckpoint(written.checkpoint, written.stall_seconds);
  for (const std::string& name : written.removed) record_.RemoveCheckpoint(name);
}

int64_t Supervisor::StepBegun(int rank) const {
  const Rank& r = ranks_[static_cast<size_t>(rank)];
  if (!r.ready || r.finished.has_value()) return r.step;
  return std::min(r.step + 1, std::max(total_steps_, r.step));
}

void Supervisor::OnLine(int rank, LogRecord::Source source, std::string text, bool truncated) {
  record_.AddLine(rank, source, std::move(text), truncated);
}

void Supervisor::OnChannelEnd(int rank, const absl::Status& status) {
  if (phase_ != Phase::kRunning && phase_ != Phase::kSettling) return;
  if (!absl::IsDataLoss(status)) {
    // On its way out, usually; OnExit tells how.
    loop_.RunAfter(options_.exit_grace, [this, rank] {
      if (!workers_->rank(rank).running() || ranks_[rank].hung) return;
      WorkerFailure failure;
      failure.set_cause(Failure::INTERNAL);
      failure.set_message("closed its channel and did not exit");
      failure.set_step(StepBegun(rank));
      OnFailure(rank, failure);
    });
    return;
  }
  WorkerFailure failure;
  failure.set_cause(Failure::INTERNAL);
  failure.set_message(absl::StrCat("it sent a malformed message: ", status.message()));
  failure.set_step(StepBegun(rank));
  OnFailure(rank, failure);
}

void Supervisor::OnExit(int rank, int wait_status) {
  spdlog::info("rank {} {}", rank, DescribeWaitStatus(wait_status));
  const bool by_itself = phase_ == Phase::kRunning || phase_ == Phase::kSettling;
  if (by_itself && !ranks_[rank].hung) {
    RankExit exit;
    exit.rank = rank;
    exit.wait_status = wait_status;
    exit.finished = ranks_[rank].finished.has_value();
    exit.out_of_memory =
        WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && out_of_memory_.HasRisen();
    exit.step = StepBegun(rank);
    judge_.OnExit(exit);
  }
  if (workers_->running() == 0) {
    FinishJob();
  } else if (by_itself && judge_.failed()) {
    Settle();
  }
}

void Supervisor::Settle() {
  if (phase_ == Phase::kRunning) {
    phase_ = Phase::kSettling;
    loop_.RunAfter(options_.settle, [this] { EndWorkers(); });
  }
  if (judge_.failed_ranks() == world_size_) EndWorkers();
}

void Supervisor::EndWorkers() {
  if (phase_ != Phase::kSettling) return;
  phase_ = Phase::kEnding;
  workers_->CloseChannels();
  loop_.RunAfter(options_.close_grace, [this] { workers_->Kill(); });
}

bool Supervisor::DidItsWork() const {
  return !judge_.failed() && std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.finished.has_value() && !rank.finished->stopped();
  });
}

void Supervisor::FinishJob() {
  phase_ = Phase::kFinishing;
  for (const WrittenCheckpoint& written : checkpoints_.TakeComplete()) AddCheckpoint(written);
  const std::optional<Failure> failure = judge_.Verdict();
  if (workers_ != nullptr) record_.EndAttempt(failure);
  tracking::RunOutcome outcome = tracking::RunOutcome::kSucceeded;
  if (DidItsWork()) {
    outcome_ = Job::SUCCEEDED;
  } else if (stop_requested_) {
    outcome_ = Job::CANCELLED;
    outcome = tracking::RunOutcome::kCancelled;
  } else {
    outcome_ = Job::FAILED;
    outcome = tracking::RunOutcome::kFailed;
  }
  // The trackers read the record: what is not in it never reaches them.
  record_.Commit();
  trackers_.Finish(outcome, options_.tracker_grace, [this] { EndJob(); });
}

void Supervisor::EndJob() {
  phase_ = Phase::kEnded;
  record_.EndJob(outcome_, start_failure_.has_value() ? start_failure_ : judge_.Verdict());
  loop_.RunAfter(options_.record_grace, [this] {
    spdlog::critical("gave up writing the job's end");
    loop_.Stop();
  });
  LeaveWhenTold();
}

bool Supervisor::ended() const { return IsTerminal(record_.Committed().status().state()); }

void Supervisor::OnCommit() {
  if (control_ != nullptr) control_->Publish();
  trackers_.Notify(record_.Committed().last_sequence());
  if (phase_ == Phase::kEnded && ended()) {
    loop_.RunAfter(kTellGrace, [this] { loop_.Stop(); });
  }
}

void Supervisor::LeaveWhenTold() {
  if (ended() && !control_->has_unsent()) return loop_.Stop();
  loop_.RunAfter(absl::Milliseconds(10), [this] { LeaveWhenTold(); });
}

void Supervisor::Note(std::string text) {
  spdlog::info("{}", text);
  record_.AddLine(std::nullopt, LogRecord::SUPERVISOR, std::move(text), /*truncated=*/false);
}

}  // namespace accel::supervisor
