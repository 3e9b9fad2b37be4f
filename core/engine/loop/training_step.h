#ifndef ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_
#define ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/engine/data/loader.h"
#include "core/engine/loop/session.h"

namespace accel::engine {

// One optimizer step after the other, each from the gradients of one or more batches. Moves the
// model, the optimizer and the schedule of a session on; its position is the caller's.
class TrainingStep {
 public:
  // What an optimizer step was.
  struct Result {
    // Rate that it used.
    double learning_rate = 0;
    // Norm of the gradients before clipping; absent without max_norm.
    std::optional<double> grad_norm;
    // Mean over the batches' losses, a float64 scalar on the device.
    at::Tensor loss;
    // Samples of all its batches.
    int64_t samples = 0;
  };

  explicit TrainingStep(Session& session) : session_(session) {}

  // Adds the batch's gradients to those of the present step, and takes the step where the batch
  // completes it. Otherwise there is no result.
  std::optional<Result> Train(const Batch& batch, bool completes_step);

 private:
  void Accumulate(const Batch& batch, bool completes_step);
  Result Finish();
  std::optional<double> ClipGradients();
  void AdvanceSchedule(int64_t updates);

  // What the batches of the present step have come to.
  struct Accumulated {
    at::Tensor loss_sum;  // float64 scalar
    int64_t batches = 0;
    int64_t samples = 0;
  };

  Session& session_;
  Accumulated accumulated_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_
