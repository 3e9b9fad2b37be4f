#include "core/engine/loop/trainer.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/random_state.h"
#include "core/engine/loop/evaluation.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

using accel::internal::v1::Finished;
using accel::internal::v1::WorkerReport;
using accel::v1::EarlyStopped;
using accel::v1::Failure;

}  // namespace

void ReportWarning(TrainingObserver& observer, const std::string& subject,
                   const std::string& message) {
  WorkerReport report;
  report.mutable_warning()->set_subject(subject);
  report.mutable_warning()->set_message(message);
  observer.OnReport(std::move(report));
}

Trainer::Trainer(Session& session, TickGate& gate, TrainingObserver& observer)
    : session_(session),
      gate_(gate),
      observer_(observer),
      position_(session.position()),
      batches_(session),
      step_(session),
      step_begun_(session.position().step) {}

absl::StatusOr<Finished> Trainer::Run() {
  ReportReady();
  step_end_ = Clock::Real().Monotonic();
  Flow flow = Flow::kGoOn;
  while (flow == Flow::kGoOn && !done() && !ends_early()) {
    ACCEL_ASSIGN_OR_RETURN(flow, TrainEpoch());
    if (flow == Flow::kStop) break;
    ACCEL_ASSIGN_OR_RETURN(flow, FinishEpoch());
  }
  if (flow == Flow::kGoOn) ACCEL_RETURN_IF_ERROR(SaveFinalCheckpoint());
  Finished finished;
  finished.set_step(position_.step);
  finished.set_stopped(flow == Flow::kStop);
  if (ends_early() && !finished.stopped()) {
    *finished.mutable_early_stopped() = *early_stop_;
    finished.mutable_early_stopped()->set_step(position_.step);
  }
  return finished;
}

void Trainer::ReportReady() {
  WorkerReport report;
  auto* ready = report.mutable_ready();
  ready->set_total_steps(session_.plan().total_steps);
  ready->set_total_epochs(session_.plan().total_epochs);
  ready->set_first_step(position_.step);
  ready->set_parameters(session_.num_parameters());
  observer_.OnReport(std::move(report));
}

int64_t Trainer::last_epoch() const {
  return position_.batches == 0 && position_.epoch > 0 ? position_.epoch - 1 : position_.epoch;
}

absl::StatusOr<Trainer::Flow> Trainer::TrainEpoch() {
  if (!position_.epoch_complete && !trained()) ACCEL_RETURN_IF_ERROR(batches_.StartEpoch());
  while (!position_.epoch_complete && !trained() && !ends_early()) {
    if (!inside_step()) {
      const TickGate::Decision decision = BeginStepTick();
      if (decision.checkpoint) Checkpoint();
      if (decision.stop) return Flow::kStop;
      step_begun_ = position_.step + 1;
    }
    if (position_.batches == 0) DrawLoaderSeed();
    ACCEL_ASSIGN_OR_RETURN(const Batch batch, batches_.Next());
    const int64_t steps_before = position_.step;
    ACCEL_RETURN_IF_ERROR(TrainBatch(batch));
    if (position_.step > steps_before && PeriodicCheckpointDue()) Checkpoint();
  }
  return Flow::kGoOn;
}

TickGate::Decision Trainer::BeginStepTick() {
  const TickGate::Decision deferred = std::exchange(deferred_, {});
  // A gate that has said to stop has nothing more to say.
  if (deferred.stop) return deferred;
  TickGate::Decision decision = gate_.BeginTick();
  decision.checkpoint |= deferred.checkpoint;
  return decision;
}

bool Trainer::PeriodicCheckpointDue() const {
  const auto& loop = session_.spec().loop();
  if (!loop.has_checkpoint_every_steps()) return false;
  const bool last = (trained() || ends_early() || position_.step == session_.plan().total_steps) &&
                    saves_at_end();
  return position_.step % loop.checkpoint_every_steps() == 0 && !last;
}

absl::StatusOr<Trainer::Flow> Trainer::FinishEpoch() {
  Flow flow = Flow::kGoOn;
  bool checkpoint_asked = false;
  if (position_.epoch_complete && session_.schedule().Watches(kTrainLoss)) {
    session_.schedule().plateau()->EndEpoch();
    session_.ApplySchedule();
  }
  if (EvaluationDue()) {
    const NamedTensors before = CaptureRandomState(session_.device());
    ACCEL_ASSIGN_OR_RETURN(const EvaluationOutcome outcome,
                           Evaluate(session_, [this] { return BeginEvaluationTick(); }));
    checkpoint_asked = outcome.checkpoint_asked;
    if (outcome.stopped) {
      flow = Flow::kStop;
    } else {
      OnEvaluation(outcome.metrics);
    }
    // An evaluation that was broken off starts anew; one in the middle of an epoch has no place in
    // a longer run. Neither may leave a trace in what is drawn later.
    if (flow == Flow::kStop || !position_.epoch_complete) {
      ACCEL_RETURN_IF_ERROR(RestoreRandomState(before, session_.device()));
    }
  }
  if (flow == Flow::kGoOn && position_.epoch_complete) {
    ++position_.epoch;
    position_.batches = 0;
    position_.epoch_complete = false;
  }
  if (checkpoint_asked) Checkpoint();
  return flow;
}

void Trainer::OnEvaluation(const std::map<std::string, double>& metrics) {
  if (session_.communicator().rank() == 0) {
    WorkerReport report;
    auto* values = report.mutable_metrics();
    values->set_step(position_.step);
    values->set_time_us(NowMicros(Clock::Real()));
    values->mutable_values()->insert(metrics.begin(), metrics.end());
    observer_.OnReport(std::move(report));
  }
  // One in the middle of an epoch is the last one, and has no place in a longer run.
  if (!position_.epoch_complete) return;
  for (const auto& [name, value] : metrics) {
    if (session_.schedule().Watches(name)) session_.schedule().plateau()->Observe(value);
    EndEarly(session_.early_stopping().Observe(name, value, position_.step));
  }
  session_.ApplySchedule();
}

void Trainer::EndEarly(const std::optional<EarlyStopped>& stop) {
  if (stop.has_value() && !early_stop_.has_value()) early_stop_ = stop;
}

absl::Status Trainer::TrainBatch(const Batch& batch) {
  const bool completes_step = session_.plan().CompletesStep(position_, batch.last);
  const std::optional<TrainingStep::Result> step =
      step_.Train(batch, batches_.step(), completes_step);
  ++position_.batches;
  position_.epoch_complete = batch.last;
  position_.micro_batches = completes_step ? 0 : position_.micro_batches + 1;
  if (!step.has_value()) return absl::OkStatus();
  if (!step->taken) return OnLossNotFinite(*step->mean_loss);
  ++position_.step;
  OnStep(*step);
  return absl::OkStatus();
}

absl::Status Trainer::OnLossNotFinite(double loss) {
  const std::string text = absl::StrCat(kTrainLoss, " is ", loss, " in step ", position_.step + 1);
  if (session_.spec().loop().on_nonfinite_loss() == "fail") {
    return WithCause(absl::InvalidArgumentError(text), Failure::JOB);
  }
  EarlyStopped stop;
  stop.set_metric(std::string(kTrainLoss));
  stop.set_value(loss);
  stop.set_reason(absl::StrCat(text, ", which was not taken"));
  EndEarly(stop);
  return absl::OkStatus();
}

void Trainer::OnStep(const TrainingStep::Result& step) {
  if (session_.local_sgd() != nullptr) session_.local_sgd()->OnStep(position_.step);
  const auto& loop = session_.spec().loop();
  const int64_t every = loop.has_log_every_steps() ? loop.log_every_steps() : 1;
  if (position_.step % every == 0) {
    ReportStep(step);
  } else {
    step_end_ = Clock::Real().Monotonic();
  }
  if (!step.mean_loss.has_value()) return;
  Schedule& schedule = session_.schedule();
  if (schedule.Watches(kTrainLoss)) schedule.plateau()->Add(*step.mean_loss);
  EndEarly(session_.early_stopping().Observe(kTrainLoss, *step.mean_loss, position_.step));
}

void Trainer::ReportStep(const TrainingStep::Result& result) {
  const double loss = result.loss.item<double>();
  const absl::Duration now = Clock::Real().Monotonic();
  WorkerReport report;
  auto* step = report.mutable_step();
  step->set_step(position_.step);
  step->set_epoch(position_.epoch);
  step->set_loss(loss);
  step->set_samples(result.samples);
  step->set_learning_rate(result.learning_rate);
  if (result.grad_norm.has_value()) step->set_grad_norm(*result.grad_norm);
  if (session_.scales_loss()) {
    auto* scaling = step->mutable_loss_scaling();
    scaling->set_scale(session_.scaler().scale());
    scaling->set_step_was_skipped(result.skipped);
    scaling->set_skipped_steps(session_.scaler().skipped_steps());
  }
  step->set_step_seconds(absl::ToDoubleSeconds(now - step_end_));
  step->set_time_us(NowMicros(Clock::Real()));
  step_end_ = now;
  observer_.OnReport(std::move(report));
  if (!std::isfinite(loss) && !warned_of_loss_) {
    warned_of_loss_ = true;
    ReportWarning(observer_, "loss",
                  absl::StrCat("loss is ", loss, " at step ", position_.step,
                               "; training goes on, later ones are not reported"));
  }
}

bool Trainer::EvaluationDue() const {
  if (session_.evaluation_loader() == nullptr) return false;
  if (trained() || ends_early()) return true;
  const auto& loop = session_.spec().loop();
  const int64_t every = loop.has_evaluate_every_epochs() ? loop.evaluate_every_epochs() : 1;
  return position_.epoch_complete && (position_.epoch + 1) % every == 0;
}

TickGate::Decision Trainer::BeginEvaluationTick() {
  if (deferred_.stop) return {};
  const TickGate::Decision decision = gate_.BeginTick();
  if (!inside_step()) return decision;
  deferred_.checkpoint |= decision.checkpoint;
  deferred_.stop = decision.stop && deferred_.checkpoint;
  return {.checkpoint = false, .stop = decision.stop && !deferred_.stop};
}

void Trainer::Checkpoint() {
  const absl::Status saved = SaveCheckpoint();
  if (!saved.ok()) {
    ReportWarning(observer_, "checkpoint",
                  absl::StrCat("checkpoint at step ", position_.step,
                               " failed, training goes on: ", saved.message()));
  }
}

absl::Status Trainer::SaveCheckpoint() {
  const Clock& clock = Clock::Real();
  const absl::Duration start = clock.Monotonic();
  ACCEL_ASSIGN_OR_RETURN(const Checkpointer::Result result, session_.SaveCheckpoint(last_epoch()));
  saved_step_ = position_.step;
  WorkerReport report;
  auto* checkpoint = report.mutable_checkpoint();
  checkpoint->set_number(result.number);
  checkpoint->set_step(position_.step);
  checkpoint->set_epoch(last_epoch());
  checkpoint->set_bytes(result.bytes);
  checkpoint->set_stall_seconds(absl::ToDoubleSeconds(clock.Monotonic() - start));
  checkpoint->set_time_us(NowMicros(clock));
  for (int64_t number : result.removed) checkpoint->add_removed(number);
  observer_.OnReport(std::move(report));
  if (!result.removal.ok()) {
    ReportWarning(observer_, "checkpoint",
                  absl::StrCat("old checkpoints stay: ", result.removal.message()));
  }
  return absl::OkStatus();
}

bool Trainer::saves_at_end() const {
  const auto& loop = session_.spec().loop();
  return !loop.has_checkpoint_at_end() || loop.checkpoint_at_end();
}

absl::Status Trainer::SaveFinalCheckpoint() {
  if (!saves_at_end() || saved_step_ == position_.step) return absl::OkStatus();
  return WithCause(SaveCheckpoint(), Failure::STORAGE);
}

}  // namespace accel::engine
