#include "core/engine/loop/training_step.h"

#include <utility>

#include "core/engine/loss.h"
#include "core/engine/optim/clipping.h"

namespace accel::engine {

std::optional<TrainingStep::Result> TrainingStep::Train(const Batch& batch, bool completes_step) {
  if (session_.optimizer().needs_closure()) return StepWithClosure(batch);
  Accumulate(batch, completes_step);
  if (completes_step) return Finish();
  if (!session_.accelerator().step_scheduler_with_optimizer()) AdvanceSchedule(1);
  return std::nullopt;
}

at::Tensor TrainingStep::Accumulate(const Batch& batch, bool completes_step) {
  const int64_t accumulation = session_.plan().accumulation;
  const bool each = session_.accelerator().gradient_accumulation_plugin().sync_each_batch();
  session_.SetReduceGradients(completes_step || each);
  const at::Tensor output = session_.Forward(batch.features);
  const at::Tensor loss = ComputeLoss(session_.spec().loss(), output, batch.targets);
  // A short last step is divided by as much, as accelerator.backward does it.
  const at::Tensor share = accumulation == 1 ? loss : loss / accumulation;
  session_.Backward(share);
  const at::Tensor value = loss.detach().to(at::kDouble);
  accumulated_.loss_sum = accumulated_.batches == 0 ? value : accumulated_.loss_sum.add(value);
  ++accumulated_.batches;
  accumulated_.samples += batch.samples;
  return share.detach();
}

// Every rank has to see the same loss, or they would not end their steps after the same number of
// evaluations.
TrainingStep::Result TrainingStep::StepWithClosure(const Batch& batch) {
  Result result;
  Optimizer& optimizer = session_.optimizer();
  result.learning_rate = optimizer.learning_rate();
  optimizer.StepWith([&] {
    optimizer.ZeroGrad();
    at::Tensor loss = Accumulate(batch, /*completes_step=*/true);
    const Accumulated done = std::exchange(accumulated_, {});
    if (!result.loss.defined()) {
      result.loss = done.loss_sum;
      result.samples = done.samples;
    }
    Communicator& ranks = session_.communicator();
    if (ranks.world_size() > 1) {
      loss = loss.clone();
      ranks.AllReduceSum(loss);
      loss.div_(ranks.world_size());
    }
    return loss.item<double>();
  });
  AdvanceSchedule(1);
  optimizer.ZeroGrad();
  return result;
}

TrainingStep::Result TrainingStep::Finish() {
  const Accumulated done = std::exchange(accumulated_, {});
  Result result;
  if (LooksAtGradients()) session_.UnscaleGradients();
  result.grad_norm = ClipGradients();
  result.learning_rate = session_.optimizer().learning_rate();
  result.skipped = !session_.StepOptimizer();
  const auto& config = session_.accelerator();
  const bool by_batches = config.step_scheduler_with_optimizer() &&
                          config.gradient_accumulation_plugin().adjust_scheduler();
  // A scheduler that Accelerate prepared waits for an optimizer that skipped its step.
  if (!result.skipped || !config.step_scheduler_with_optimizer()) {
    AdvanceSchedule(by_batches ? done.batches : 1);
  }
  session_.optimizer().ZeroGrad();
  result.loss = done.loss_sum / done.batches;
  result.samples = done.samples;
  return result;
}

bool TrainingStep::LooksAtGradients() const {
  const auto& clipping = session_.spec().loop().clipping();
  return clipping.has_max_norm() || clipping.has_max_value();
}

std::optional<double> TrainingStep::ClipGradients() {
  const auto& clipping = session_.spec().loop().clipping();
  if (clipping.has_max_norm()) return ClipGradNorm(session_.parameters(), clipping.max_norm());
  if (clipping.has_max_value()) ClipGradValue(session_.parameters(), clipping.max_value());
  return std::nullopt;
}

void TrainingStep::AdvanceSchedule(int64_t updates) {
  session_.schedule().Advance(updates);
  session_.ApplySchedule();
}

}  // namespace accel::engine
