#ifndef ACCEL_CORE_ENGINE_LOOP_PLAN_H_
#define ACCEL_CORE_ENGINE_LOOP_PLAN_H_

#include <cstdint>

#include "accel/v1/training.pb.h"

namespace accel::engine {

// How long a job is.
struct LoopPlan {
  // Optimizer steps of an epoch: batches that every rank has.
  int64_t rounds_per_epoch = 0;
  int64_t total_steps = 0;
  // Rounded up.
  int64_t total_epochs = 0;
};

// `rounds_per_epoch` is at least 1.
LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec, int64_t rounds_per_epoch);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_PLAN_H_
