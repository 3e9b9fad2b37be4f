#ifndef ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_
#define ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/engine/data/loader.h"
#include "core/engine/loop/session.h"
#include "core/engine/loop/step_batches.h"

namespace accel::engine {

// One optimizer step after the other, each from the gradients of one or more batches. Moves the
// model, the optimizer and the schedule of a session on; its position is the caller's.
class TrainingStep {
 public:
  // What an optimizer step was.
  struct Result {
    // False where the loss is not finite and the job asks not to go on then: nothing was changed.
    bool taken = true;
    // Rate that it used.
    double learning_rate = 0;
    // Norm of the gradients before clipping; absent without max_norm and log_grad_norm.
    std::optional<double> grad_norm;
    // This rank's part of the loss, a float64 scalar on the device; see StepReport.loss.
    at::Tensor loss;
    // Mean over the ranks by their samples, the same on each; only where the job watches the loss.
    std::optional<double> mean_loss;
    // Samples of all its batches.
    int64_t samples = 0;
    // Whether the optimizer left the parameters alone, because gradients overflowed.
    bool skipped = false;
  };

  explicit TrainingStep(Session& session);

  // Adds the batch's gradients to those of the present step, of size `size`, and takes the step
  // where the batch completes it. Otherwise there is no result.
  std::optional<Result> Train(const Batch& batch, const StepSize& size, bool completes_step);

 private:
  // Returns the part of the step's loss that the gradients are of.
  at::Tensor Accumulate(const Batch& batch, const StepSize& size, bool completes_step);
  at::Tensor ShareOfStep(const at::Tensor& loss, const StepSize& size) const;
  Result Finish(const StepSize& size);
  // The whole step of an optimizer that evaluates the loss of its batch more than once.
  Result StepWithClosure(const Batch& batch, const StepSize& size);
  at::Tensor LossOfStep(const StepSize& size) const;
  double MeanOverRanks(const at::Tensor& loss, int64_t samples) const;
  bool LooksAtGradients() const;
  std::optional<double> ClipGradients();
  void AdvanceSchedule(int64_t updates);

  // What the batches of the present step have come to.
  struct Accumulated {
    at::Tensor loss_sum;  // float64 scalar
    int64_t batches = 0;
    int64_t samples = 0;
  };

  Session& session_;
  const bool by_items_;
  // Whether each step's loss has to be known on all ranks, and to be finite.
  const bool needs_finite_loss_;
  const bool watches_loss_;
  Accumulated accumulated_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_TRAINING_STEP_H_
