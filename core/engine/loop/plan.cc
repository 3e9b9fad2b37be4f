#include "core/engine/loop/plan.h"

#include <algorithm>
#include <limits>

namespace accel::engine {
namespace {

constexpr int64_t kDefaultSeed = 42;
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

bool LoopPlan::StepEndsAt(int64_t epoch, int64_t rounds) const {
  if (!sync_with_dataloader) return (epoch * rounds_per_epoch + rounds) % accumulation == 0;
  return rounds % accumulation == 0 || rounds == rounds_per_epoch;
}

int64_t SeedOf(const accel::v1::LoopSpec& spec) {
  return spec.has_seed() ? spec.seed() : kDefaultSeed;
}

int64_t LoopPlan::BatchesOfStepAt(int64_t rounds) const {
  return sync_with_dataloader ? std::min(accumulation, rounds_per_epoch - rounds) : accumulation;
}

LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec,
                      const accel::v1::GradientAccumulationPlugin& accumulation,
                      int64_t rounds_per_epoch) {
  LoopPlan plan{.rounds_per_epoch = rounds_per_epoch,
                .accumulation = std::max(1, accumulation.num_steps()),
                .sync_with_dataloader = accumulation.sync_with_dataloader()};
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
