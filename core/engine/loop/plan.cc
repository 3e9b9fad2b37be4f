#include "core/engine/loop/plan.h"

#include <algorithm>
#include <limits>

namespace accel::engine {

LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec, int64_t rounds_per_epoch) {
  int64_t steps = std::numeric_limits<int64_t>::max();
  if (spec.has_num_epochs()) steps = spec.num_epochs() * rounds_per_epoch;
  if (spec.has_max_steps()) steps = std::min(steps, spec.max_steps());
  return {.rounds_per_epoch = rounds_per_epoch,
          .total_steps = steps,
          .total_epochs = (steps - 1) / rounds_per_epoch + 1};
}

}  // namespace accel::engine
