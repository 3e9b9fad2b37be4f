#include "server/supervisor/supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/supervisor/job_folder.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::JobStatus;
using accel::internal::v1::ToSupervisor;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;

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
      record_(loop, *options.clock, std::move(writer), std::move(status), [this] { OnCommit(); }),
      trackers_(loop, *options.clock,
                [this](const std::string& subject, const std::string& message) {
                  record_.AddWarning(subject, message);
                }) {}

Supervisor::~Supervisor() = default;

void Supervisor::Start() {
  if (record_.state() != Job::STARTING) record_.ChangeState(Job::STARTING);
  trackers_.Start(launch_.job(), options_.job_dir, JobFolder{options_.job_dir}.record());
  StartAttempt();
}

void Supervisor::StartAttempt() {
  const int number = record_.status().attempts_size() + 1;
  attempt_ = std::make_unique<Attempt>(loop_, options_.attempt, launch_, world_size_,
                                       JobFolder{options_.job_dir}.checkpoints(), record_,
                                       [this] { FinishJob(attempt_->failure()); });
  const absl::Status started =
      attempt_->Start(number, launch_.job().spec().data().batch_size(),
                      [&](WorkerObserver& observer) { return StartWorkers(number, observer); });
  if (started.ok()) return;
  attempt_.reset();
  Failure failure;
  failure.set_cause(Failure::INTERNAL);
  failure.set_message(absl::StrCat("cannot start the workers: ", started.message()));
  FinishJob(std::move(failure));
}

absl::StatusOr<std::unique_ptr<WorkerSet>> Supervisor::StartWorkers(int attempt,
                                                                    WorkerObserver& observer) {
  const fs::path checkpoints = JobFolder{options_.job_dir}.checkpoints();
  accel::internal::v1::StartAttempt start;
  start.set_job_name(launch_.job().name());
  *start.mutable_spec() = launch_.job().spec();
  *start.mutable_resolved_accelerator() = launch_.job().resolved_accelerator();
  start.set_attempt(attempt);
  *start.mutable_data_roots() = launch_.data_roots();
  start.set_checkpoints_dir(checkpoints.string());
  start.set_resume_dir(launch_.resume_dir());
  start.set_next_checkpoint(NextCheckpoint(
      checkpoints, launch_.job().resolved_accelerator().project_config().iteration()));
  return WorkerSet::Start(loop_, *options_.launcher, launch_, std::move(start), world_size_,
                          observer);
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
  if (attempt_ == nullptr || !attempt_->running()) {
    spdlog::info("asked to stop: the job is ending already");
    return;
  }
  const absl::Duration deadline = options_.clock->Monotonic() + grace;
  if (deadline < stop_deadline_) {
    stop_deadline_ = deadline;
    loop_.RunAfter(grace, [this] { KillWorkers(); });
  }
  if (stop_requested_) return;
  stop_requested_ = true;
  Note(absl::StrCat("asked to stop within ", absl::FormatDuration(grace)));
  record_.ChangeState(Job::STOPPING);
  attempt_->RequestStop();
}

void Supervisor::KillWorkers() {
  if (!attempt_->judging()) return;
  Note("the grace to stop is over: the workers are killed");
  attempt_->Kill();
}

void Supervisor::RequestCheckpoint() {
  if (record_.state() != Job::RUNNING || attempt_ == nullptr || !attempt_->running()) {
    Note("asked for a checkpoint: the job does not train");
    return;
  }
  Note("asked for a checkpoint");
  attempt_->RequestCheckpoint();
}

void Supervisor::FinishJob(std::optional<Failure> failure) {
  tracking::RunOutcome outcome = tracking::RunOutcome::kSucceeded;
  if (attempt_ != nullptr && attempt_->did_its_work()) {
    outcome_ = Job::SUCCEEDED;
  } else if (stop_requested_) {
    outcome_ = Job::CANCELLED;
    outcome = tracking::RunOutcome::kCancelled;
  } else {
    outcome_ = Job::FAILED;
    outcome = tracking::RunOutcome::kFailed;
  }
  failure_ = std::move(failure);
  // The trackers read the record: what is not in it never reaches them.
  record_.Commit();
  trackers_.Finish(outcome, options_.tracker_grace, [this] { EndJob(); });
}

void Supervisor::EndJob() {
  terminal_ = true;
  record_.EndJob(outcome_, failure_);
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
  if (terminal_ && ended()) {
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
