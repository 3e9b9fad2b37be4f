#include "core/engine/loop/plan.h"

#include <algorithm>
#include <limits>

namespace accel::engine {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

int64_t SaturatingAdd(int64_t a, int64_t b) { return a > kMax - b ? kMax : a + b; }

int64_t StepsPerEpoch(const LoopPlan& plan) {
  return (plan.rounds_per_epoch - 1) / plan.accumulation + 1;
}

int64_t StepsOfEpochs(const LoopPlan& plan, int64_t epochs) {
  return plan.sync_with_dataloader ? epochs * StepsPerEpoch(plan)
                                   : epochs * plan.rounds_per_epoch / plan.accumulation;
}

int64_t RoundsOfSteps(const LoopPlan& plan, int64_t steps) {
  if (!plan.sync_with_dataloader) return SaturatingMultiply(steps, plan.accumulation);
  const int64_t per_epoch = StepsPerEpoch(plan);
  return SaturatingAdd(SaturatingMultiply(steps / per_epoch, plan.rounds_per_epoch),
                       steps % per_epoch * plan.accumulation);
}

}  // namespace

bool LoopPlan::CompletesStep(const Position& position, bool last_of_epoch) const {
  return position.micro_batches + 1 >= accumulation || (sync_with_dataloader && last_of_epoch);
}

bool LoopPlan::EndsAt(const Position& position) const {
  if (max_steps > 0 && position.step >= max_steps) return true;
  return num_epochs > 0 && position.epoch + (position.epoch_complete ? 1 : 0) >= num_epochs;
}

LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec,
                      const accel::v1::GradientAccumulationPlugin& accumulation,
                      int64_t rounds_per_epoch) {
  LoopPlan plan{.rounds_per_epoch = rounds_per_epoch,
                .accumulation = std::max(1, accumulation.num_steps()),
                .sync_with_dataloader = accumulation.sync_with_dataloader(),
                .max_steps = spec.max_steps(),
                .num_epochs = spec.num_epochs()};
  if (rounds_per_epoch == 0) {
    plan.total_steps = plan.max_steps;
    plan.total_rounds = SaturatingMultiply(plan.max_steps, plan.accumulation);
    plan.total_epochs = plan.num_epochs;
    return plan;
  }
  plan.total_steps = spec.has_num_epochs() ? StepsOfEpochs(plan, spec.num_epochs()) : kMax;
  if (spec.has_max_steps() && spec.max_steps() <= plan.total_steps) {
    plan.total_steps = spec.max_steps();
    plan.total_rounds = RoundsOfSteps(plan, plan.total_steps);
  } else {
    plan.total_rounds = spec.num_epochs() * rounds_per_epoch;
  }
  plan.total_epochs = (plan.total_rounds - 1) / rounds_per_epoch + 1;
  return plan;
}

}  // namespace accel::engine
