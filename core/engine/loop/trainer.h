#ifndef ACCEL_CORE_ENGINE_LOOP_TRAINER_H_
#define ACCEL_CORE_ENGINE_LOOP_TRAINER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/engine/loop/session.h"
#include "core/engine/loop/step_batches.h"
#include "core/engine/loop/training.h"
#include "core/engine/loop/training_step.h"

namespace accel::engine {

// Sends a WarningReport.
void ReportWarning(TrainingObserver& observer, const std::string& subject,
                   const std::string& message);

// The training loop of one rank over a session. Every rank runs the same ticks in the same order.
class Trainer {
 public:
  Trainer(Session& session, TickGate& gate, TrainingObserver& observer);

  // Trains to the job's end or a stop. Errors carry their cause; LibTorch's exceptions pass.
  absl::StatusOr<accel::internal::v1::Finished> Run();

  // Last step that has begun.
  int64_t step_begun() const { return step_begun_; }

 private:
  // Whether to go on after a part of the loop.
  enum class Flow { kGoOn, kStop };

  void ReportReady();
  // Trains the rest of the epoch, or what the job still has of it.
  absl::StatusOr<Flow> TrainEpoch();
  // Evaluates where it is time to, and goes on to the next epoch where this one is complete.
  absl::StatusOr<Flow> FinishEpoch();
  // Trains the batch and reports the step where it completes one.
  absl::Status TrainBatch(const Batch& batch);
  // What follows from a step that was taken, and from one that was not.
  void OnStep(const TrainingStep::Result& step);
  absl::Status OnLossNotFinite(double loss);
  void ReportStep(const TrainingStep::Result& result);

  bool EvaluationDue() const;
  // Reports an evaluation and shows it to the conditions that may end the job and to the schedule.
  void OnEvaluation(const std::map<std::string, double>& metrics);
  // What to do before the next batch of an evaluation. Inside a step a checkpoint waits for the
  // step's end, and so does a stop that is to come after it.
  TickGate::Decision BeginEvaluationTick();

  // Ends the job as soon as no step is under way, where there is a reason.
  void EndEarly(const std::optional<accel::v1::EarlyStopped>& stop);

  // Saves; a failure is only a warning.
  void Checkpoint();
  absl::Status SaveCheckpoint();
  absl::Status SaveFinalCheckpoint();
  bool PeriodicCheckpointDue() const;
  bool saves_at_end() const;

  // What to do before the next optimizer step.
  TickGate::Decision BeginStepTick();

  // Whether gradients wait for more batches: there is no checkpoint of such a position.
  bool inside_step() const { return !trained() && position_.micro_batches > 0; }
  bool trained() const { return session_.plan().EndsAt(position_); }
  // A complete epoch is still to be finished, also after the last batch.
  bool done() const { return trained() && !position_.epoch_complete; }
  bool ends_early() const { return early_stop_.has_value() && !inside_step(); }
  // Epoch of the last batch.
  int64_t last_epoch() const;

  Session& session_;
  TickGate& gate_;
  TrainingObserver& observer_;
  Position& position_;
  StepBatches batches_;
  TrainingStep step_;
  int64_t step_begun_ = 0;
  // What was asked for inside a step, for its end.
  TickGate::Decision deferred_;
  // Why the job ends before its last step.
  std::optional<accel::v1::EarlyStopped> early_stop_;
  absl::Duration step_end_;
  int64_t saved_step_ = -1;
  bool warned_of_loss_ = false;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_TRAINER_H_
