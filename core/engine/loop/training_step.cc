#include "core/engine/loop/training_step.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/engine/loss.h"
#include "core/engine/optim/clipping.h"

namespace accel::engine {

namespace {

bool NeedsFiniteLoss(const accel::v1::LoopSpec& loop) {
  return loop.has_on_nonfinite_loss() && loop.on_nonfinite_loss() != "continue";
}

}  // namespace

TrainingStep::TrainingStep(Session& session)
    : session_(session),
      by_items_(AveragesOverItems(session)),
      needs_finite_loss_(NeedsFiniteLoss(session.spec().loop())),
      watches_loss_(needs_finite_loss_ || session.early_stopping().Watches(kTrainLoss) ||
                    session.schedule().Watches(kTrainLoss)) {}

std::optional<TrainingStep::Result> TrainingStep::Train(const Batch& batch, const StepSize& size,
                                                        bool completes_step) {
  if (session_.optimizer().needs_closure()) return StepWithClosure(batch, size);
  Accumulate(batch, size, completes_step);
  if (completes_step) return Finish(size);
  if (!session_.accelerator().step_scheduler_with_optimizer()) AdvanceSchedule(1);
  return std::nullopt;
}

at::Tensor TrainingStep::Accumulate(const Batch& batch, const StepSize& size, bool completes_step) {
  const bool each = session_.accelerator().gradient_accumulation_plugin().sync_each_batch();
  session_.SetReduceGradients(completes_step || each);
  const at::Tensor output = session_.Forward(batch.features);
  const at::Tensor loss = ComputeLoss(session_.spec().loss(), output, batch.targets,
                                      by_items_ ? LossReduction::kSum : LossReduction::kMean);
  const at::Tensor share = ShareOfStep(loss, size);
  session_.Backward(share);
  const at::Tensor value = loss.detach().to(at::kDouble);
  accumulated_.loss_sum = accumulated_.batches == 0 ? value : accumulated_.loss_sum.add(value);
  ++accumulated_.batches;
  accumulated_.samples += batch.samples;
  return share.detach();
}

// Every rank has to see the same loss, or they would not end their steps after the same number of
// evaluations.
TrainingStep::Result TrainingStep::StepWithClosure(const Batch& batch, const StepSize& size) {
  Result result;
  Optimizer& optimizer = session_.optimizer();
  result.learning_rate = optimizer.learning_rate();
  optimizer.StepWith([&] {
    optimizer.ZeroGrad();
    at::Tensor loss = Accumulate(batch, size, /*completes_step=*/true);
    if (!result.loss.defined()) {
      result.loss = LossOfStep(size);
      result.samples = accumulated_.samples;
    }
    accumulated_ = {};
    Communicator& ranks = session_.communicator();
    if (ranks.world_size() > 1) {
      loss = loss.clone();
      ranks.AllReduceSum(loss);
      loss.div_(ranks.world_size());
    }
    return loss.item<double>();
  });
  if (watches_loss_) result.mean_loss = MeanOverRanks(result.loss, result.samples);
  AdvanceSchedule(1);
  optimizer.ZeroGrad();
  return result;
}

at::Tensor TrainingStep::ShareOfStep(const at::Tensor& loss, const StepSize& size) const {
  if (session_.spec().loss().averaging() == "micro_batches") return loss / size.batches;
  // A short last step is divided by as much, as accelerator.backward does it.
  const int64_t accumulation = session_.plan().accumulation;
  if (!by_items_) return accumulation == 1 ? loss : loss / accumulation;
  // The mean over micro-batches and ranks that follows is undone first, in the order of operations
  // of Accelerate's guide.
  const int64_t items = std::max<int64_t>(size.items, 1);
  return loss * accumulation * session_.communicator().world_size() / items / accumulation;
}

at::Tensor TrainingStep::LossOfStep(const StepSize& size) const {
  if (!by_items_) return accumulated_.loss_sum / accumulated_.batches;
  // The mean of the ranks' parts by their samples is the sum over all ranks, divided by the items.
  const double samples = static_cast<double>(size.samples);
  const double items = static_cast<double>(std::max<int64_t>(size.items, 1));
  return accumulated_.loss_sum * (samples / (static_cast<double>(accumulated_.samples) * items));
}

double TrainingStep::MeanOverRanks(const at::Tensor& loss, int64_t samples) const {
  const double weight = static_cast<double>(samples);
  at::Tensor sums = at::stack({loss * weight, at::full_like(loss, weight)});
  session_.communicator().AllReduceSum(sums);
  const at::Tensor totals = sums.cpu();
  return totals[0].item<double>() / totals[1].item<double>();
}

TrainingStep::Result TrainingStep::Finish(const StepSize& size) {
  Result result;
  result.loss = LossOfStep(size);
  const Accumulated done = std::exchange(accumulated_, {});
  result.samples = done.samples;
  if (watches_loss_) result.mean_loss = MeanOverRanks(result.loss, done.samples);
  if (needs_finite_loss_ && !std::isfinite(*result.mean_loss)) {
    result.taken = false;
    session_.optimizer().ZeroGrad();
    return result;
  }
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
  return result;
}

bool TrainingStep::LooksAtGradients() const {
  const auto& loop = session_.spec().loop();
  return loop.clipping().has_max_norm() || loop.clipping().has_max_value() || loop.log_grad_norm();
}

std::optional<double> TrainingStep::ClipGradients() {
  const auto& clipping = session_.spec().loop().clipping();
  if (clipping.has_max_norm()) return ClipGradNorm(session_.parameters(), clipping.max_norm());
  std::optional<double> norm;
  if (session_.spec().loop().log_grad_norm()) norm = GradNorm(session_.parameters());
  if (clipping.has_max_value()) ClipGradValue(session_.parameters(), clipping.max_value());
  return norm;
}

void TrainingStep::AdvanceSchedule(int64_t updates) {
  session_.schedule().Advance(updates);
  session_.ApplySchedule();
}

}  // namespace accel::engine
