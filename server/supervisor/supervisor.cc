#include "server/supervisor/supervisor.h"

#include <algorithm>
#include <utility>

#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"
#include "server/supervisor/attempt_series.h"
#include "server/supervisor/machine_member.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::JobLaunch;
using accel::internal::v1::JobStatus;
using accel::internal::v1::ToSupervisor;
using accel::v1::Failure;
using accel::v1::Job;

// How long the daemon's connections may take to read the last message.
constexpr absl::Duration kTellGrace = absl::Seconds(1);

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
      folder_{options.job_dir},
      record_(loop, *options.clock, std::move(writer), std::move(status), [this] { OnCommit(); }),
      trackers_(loop, *options.clock,
                [this](const std::string& subject, const std::string& message) {
                  record_.AddWarning(subject, message);
                }) {
  const auto on_over = [this](Job::State outcome, const std::optional<Failure>& failure) {
    OnOver(outcome, failure);
  };
  if (config::IsMachineMember(launch_.job().spec())) {
    run_ = std::make_unique<MachineMember>(Context(), on_over);
  } else {
    run_ = std::make_unique<AttemptSeries>(Context(), on_over);
  }
}

Supervisor::~Supervisor() = default;

RunContext Supervisor::Context() {
  return {.loop = loop_,
          .clock = *options_.clock,
          .launcher = *options_.launcher,
          .launch = launch_,
          .folder = folder_,
          .attempt = options_.attempt,
          .record = record_};
}

void Supervisor::Start() {
  if (record_.state() != Job::STARTING) record_.ChangeState(Job::STARTING);
  trackers_.Start(launch_, options_.job_dir, folder_.record());
  run_->Start();
}

void Supervisor::OnCommand(const ToSupervisor& command) {
  switch (command.message_case()) {
    case ToSupervisor::kStop:
      return Stop(absl::Seconds(std::max(0.0, command.stop().grace_seconds())));
    case ToSupervisor::kCheckpoint:
      return run_->RequestCheckpoint();
    case ToSupervisor::MESSAGE_NOT_SET:
      spdlog::warn("control: a command that this version does not know");
  }
}

void Supervisor::Stop(absl::Duration grace) { run_->Stop(grace); }

void Supervisor::OnOver(Job::State outcome, const std::optional<Failure>& failure) {
  tracking::RunOutcome run_outcome = tracking::RunOutcome::kSucceeded;
  if (outcome == Job::CANCELLED) run_outcome = tracking::RunOutcome::kCancelled;
  if (outcome == Job::FAILED) run_outcome = tracking::RunOutcome::kFailed;
  // The trackers read the record: what is not in it never reaches them.
  record_.Commit();
  trackers_.Finish(run_outcome, options_.tracker_grace,
                   [this, outcome, failure] { EndJob(outcome, failure); });
}

void Supervisor::EndJob(Job::State outcome, const std::optional<Failure>& failure) {
  terminal_ = true;
  record_.EndJob(outcome, failure);
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

}  // namespace accel::supervisor
