#include "core/engine/loop/training_step.h"

#include <utility>

#include "core/engine/loss.h"
#include "core/engine/optim/clipping.h"

namespace accel::engine {

std::optional<TrainingStep::Result> TrainingStep::Train(const Batch& batch, bool completes_step) {
  Accumulate(batch, completes_step);
  if (completes_step) return Finish();
  if (!session_.accelerator().step_scheduler_with_optimizer()) AdvanceSchedule(1);
  return std::nullopt;
}

void TrainingStep::Accumulate(const Batch& batch, bool completes_step) {
  const int64_t accumulation = session_.plan().accumulation;
  const bool each = session_.accelerator().gradient_accumulation_plugin().sync_each_batch();
  session_.SetReduceGradients(completes_step || each);
  const at::Tensor output = session_.Forward(batch.features.to(session_.device()));
  const at::Tensor loss =
      ComputeLoss(session_.spec().loss(), output, batch.targets.to(session_.device()));
  // A short last step is divided by as much, as accelerator.backward does it.
  (accumulation == 1 ? loss : loss / accumulation).backward();
  const at::Tensor value = loss.detach().to(at::kDouble);
  accumulated_.loss_sum = accumulated_.batches == 0 ? value : accumulated_.loss_sum.add(value);
  ++accumulated_.batches;
  accumulated_.samples += batch.samples;
}

TrainingStep::Result TrainingStep::Finish() {
  const Accumulated done = std::exchange(accumulated_, {});
  Result result;
  result.grad_norm = ClipGradients();
  Optimizer& optimizer = session_.optimizer();
  result.learning_rate = optimizer.learning_rate();
  optimizer.Step();
  const auto& config = session_.accelerator();
  const bool by_batches = config.step_scheduler_with_optimizer() &&
                          config.gradient_accumulation_plugin().adjust_scheduler();
  AdvanceSchedule(by_batches ? done.batches : 1);
  optimizer.ZeroGrad();
  result.loss = done.loss_sum / done.batches;
  result.samples = done.samples;
  return result;
}

std::optional<double> TrainingStep::ClipGradients() {
  const auto& clipping = session_.spec().loop().clipping();
  if (clipping.has_max_norm()) return ClipGradNorm(session_.parameters(), clipping.max_norm());
  if (clipping.has_max_value()) ClipGradValue(session_.parameters(), clipping.max_value());
  return std::nullopt;
}

void TrainingStep::AdvanceSchedule(int64_t updates) {
  session_.schedule().Advance(updates);
  session_.optimizer().set_learning_rate(session_.schedule().LearningRate());
}

}  // namespace accel::engine
