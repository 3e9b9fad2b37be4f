#ifndef ACCEL_CORE_ENGINE_LOOP_TRAINING_H_
#define ACCEL_CORE_ENGINE_LOOP_TRAINING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/worker.pb.h"

namespace accel::engine {

// What a rank tells its supervisor. Called from the training thread; must not block on anything but
// a short lock.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void OnReport(accel::internal::v1::WorkerReport report) = 0;
};

// Where a rank asks what to do, at the boundary before each tick (see PrepareCut in worker.proto).
class TickGate {
 public:
  // What to do before the next tick.
  struct Decision {
    bool checkpoint = false;
    bool stop = false;
  };

  virtual ~TickGate() = default;

  // Called before every tick, with no collective under way. Usually costs one uncontended lock;
  // waits only while a cut is being agreed. Counts the tick that the caller begins on return,
  // except after `stop`.
  virtual Decision BeginTick() = 0;

  // Whether a stop was asked for; polled during start-up and loading, before the first tick.
  virtual bool StopRequested() const = 0;
};

// Trains one rank's part of an attempt from start to end: process group, data, model, loop,
// checkpoints. Reports Ready, StepReport, MetricReport, CheckpointReport and WarningReport through
// `observer`; returns what Finished says. No exception leaves it. The status of a failure carries
// its cause: see CauseOf.
absl::StatusOr<accel::internal::v1::Finished> RunTraining(
    const accel::internal::v1::StartAttempt& start, TickGate& gate, TrainingObserver& observer);

// The cause that a status of this engine stands for.
accel::v1::Failure::Cause CauseOf(const absl::Status& status);

// The last step that had begun when RunTraining failed with `status`; 0 before the first.
int64_t StepOf(const absl::Status& status);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_TRAINING_H_
