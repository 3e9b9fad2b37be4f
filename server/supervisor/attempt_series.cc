#include "server/supervisor/attempt_series.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"
#include "server/supervisor/checkpoint_collector.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {

using accel::v1::Failure;
using accel::v1::Job;

AttemptSeries::AttemptSeries(const RunContext& context, OnOver on_over)
    : context_(context),
      on_over_(std::move(on_over)),
      world_size_(config::NumProcesses(context.launch.job().spec())),
      search_(context.launch.job().spec()) {}

AttemptSeries::~AttemptSeries() = default;

void AttemptSeries::Start() {
  if (config::NumMachines(context_.launch.job().spec()) == 1) return StartAttempt();
  if (const absl::Status listening = ListenForMachines(); !listening.ok()) {
    Fail(Failure::MACHINE, std::string(listening.message()));
  }
}

absl::Status AttemptSeries::ListenForMachines() {
  MachineLeader::Events events;
  events.all_came = [this] { StartAttempt(); };
  events.failed = [this](std::string why) { Fail(Failure::MACHINE, std::move(why)); };
  events.stop_asked = [this](absl::Duration grace) { Stop(grace); };
  events.checkpoint_asked = [this] { RequestCheckpoint(); };
  events.warn = [this](std::string text) { context_.record.AddWarning("multi_node", text); };
  ACCEL_ASSIGN_OR_RETURN(machines_,
                         MachineLeader::Listen(context_.loop, context_.launch, std::move(events)));
  return absl::OkStatus();
}

void AttemptSeries::StartAttempt() {
  if (over_) return;
  if (stop_requested_) return Finish(std::nullopt);
  // The last attempt's file must be gone before the next one's is made.
  rendezvous_.reset();
  const int number = context_.record.status().attempts_size() + 1;
  attempt_ = std::make_unique<Attempt>(context_.loop, context_.attempt, context_.launch,
                                       world_size_, context_.folder.checkpoints(), context_.record,
                                       [this] { OnAttemptOver(); });
  const absl::Status started =
      attempt_->Start(number, search_.batch_size(),
                      [&](WorkerObserver& observer) { return StartWorkers(number, observer); });
  if (started.ok()) return;
  attempt_.reset();
  Fail(Failure::INTERNAL, absl::StrCat("cannot start the workers: ", started.message()));
}

absl::StatusOr<std::unique_ptr<WorkerSet>> AttemptSeries::StartWorkers(int number,
                                                                       WorkerObserver& observer) {
  ACCEL_ASSIGN_OR_RETURN(IpAddress address, IpAddress::Parse("localhost"));
  if (machines_ != nullptr) address = machines_->address();
  ACCEL_ASSIGN_OR_RETURN(Rendezvous rendezvous, Rendezvous::Open(context_.launch, address));
  rendezvous_.emplace(std::move(rendezvous));
  accel::internal::v1::StartAttempt start = Describe(number);
  start.set_store_host(rendezvous_->host());
  start.set_store_port(rendezvous_->port());
  start.set_store_file(rendezvous_->file().string());
  start.set_local_address(address.ToString());
  ACCEL_ASSIGN_OR_RETURN(
      std::unique_ptr<WorkerSet> workers,
      WorkerSet::Start(
          context_.loop, context_.launcher, context_.launch, start, /*first_rank=*/0,
          config::ProcessesPerMachine(context_.launch.job().spec()), rendezvous_->listen_fd(),
          RendezvousEnvironment(context_.launch, rendezvous_->host(), rendezvous_->port()),
          observer));
  if (machines_ != nullptr) {
    for (auto& rank : machines_->StartRanks(start, observer)) workers->Add(std::move(rank));
  }
  return workers;
}

accel::internal::v1::StartAttempt AttemptSeries::Describe(int number) const {
  const Job& job = context_.launch.job();
  accel::internal::v1::StartAttempt start;
  start.set_job_name(job.name());
  *start.mutable_spec() = job.spec();
  start.mutable_spec()->mutable_data()->set_batch_size(search_.batch_size());
  *start.mutable_resolved_accelerator() = job.resolved_accelerator();
  start.set_attempt(number);
  start.set_world_size(world_size_);
  *start.mutable_data_roots() = context_.launch.data_roots();
  start.set_checkpoints_dir(context_.folder.checkpoints().string());
  start.set_resume_dir(context_.launch.resume_dir());
  start.set_next_checkpoint(NextCheckpoint(
      context_.folder.checkpoints(), job.resolved_accelerator().project_config().iteration()));
  return start;
}

void AttemptSeries::OnAttemptOver() {
  const std::optional<Failure> failure = attempt_->failure();
  const bool more =
      failure.has_value() && !stop_requested_ && search_.Reduce(*failure, attempt_->steps_done());
  if (machines_ != nullptr) machines_->EndAttempt(failure, more);
  if (!more) {
    return Finish(failure.has_value() ? std::optional(search_.Explain(*failure)) : std::nullopt);
  }
  context_.record.AddBatchSizeReduced(search_.previous_batch_size(), search_.batch_size());
  // The attempt is still in its own call.
  context_.loop.RunAfter(absl::ZeroDuration(), [this] { StartAttempt(); });
}

void AttemptSeries::Stop(absl::Duration grace) {
  // With a search, an attempt that is failing may be followed by another one.
  const bool ending = attempt_ != nullptr && !attempt_->running() && !search_.active();
  if (over_ || ending) {
    spdlog::info("asked to stop: the job is ending already");
    return;
  }
  const absl::Duration deadline = context_.clock.Monotonic() + grace;
  if (deadline < stop_deadline_) {
    stop_deadline_ = deadline;
    context_.loop.RunAfter(grace, [this] { OnStopDeadline(); });
  }
  if (stop_requested_) return;
  stop_requested_ = true;
  context_.record.Note(absl::StrCat("asked to stop within ", absl::FormatDuration(grace)));
  context_.record.ChangeState(Job::STOPPING);
  if (machines_ != nullptr) machines_->TellStop(grace);
  if (attempt_ == nullptr) {
    Finish(std::nullopt);
  } else if (attempt_->running()) {
    attempt_->RequestStop();
  }
}

void AttemptSeries::OnStopDeadline() {
  if (attempt_ == nullptr || !attempt_->judging()) return;
  context_.record.Note("the grace to stop is over: the workers are killed");
  attempt_->Kill();
}

void AttemptSeries::RequestCheckpoint() {
  if (context_.record.state() != Job::RUNNING || attempt_ == nullptr || !attempt_->running()) {
    return context_.record.Note("asked for a checkpoint: the job does not train");
  }
  context_.record.Note("asked for a checkpoint");
  attempt_->RequestCheckpoint();
}

void AttemptSeries::Fail(Failure::Cause cause, std::string message) {
  Failure failure;
  failure.set_cause(cause);
  failure.set_message(std::move(message));
  Finish(std::move(failure));
}

void AttemptSeries::Finish(std::optional<Failure> failure) {
  if (std::exchange(over_, true)) return;
  rendezvous_.reset();
  Job::State state = stop_requested_ ? Job::CANCELLED : Job::FAILED;
  if (attempt_ != nullptr && attempt_->did_its_work()) state = Job::SUCCEEDED;
  if (state != Job::FAILED) failure.reset();
  if (machines_ == nullptr) return on_over_(state, failure);
  machines_->TellOutcome(state, failure, [this, state, failure] { on_over_(state, failure); });
}

}  // namespace accel::supervisor
