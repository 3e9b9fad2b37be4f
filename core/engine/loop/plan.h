#ifndef ACCEL_CORE_ENGINE_LOOP_PLAN_H_
#define ACCEL_CORE_ENGINE_LOOP_PLAN_H_

#include <cstdint>

#include "accel/v1/kwargs.pb.h"
#include "accel/v1/training.pb.h"

namespace accel::engine {

// How long a job is, and which of its batches make an optimizer step together. A round is one batch
// of every rank.
struct LoopPlan {
  int64_t rounds_per_epoch = 0;
  // Rounds of an optimizer step; its last one in an epoch may have fewer.
  int64_t accumulation = 1;
  // Whether a step ends with the epoch. Otherwise it goes on in the next one, and the rounds after
  // the job's last step only accumulate.
  bool sync_with_dataloader = true;
  // Optimizer steps; 0 where the job is shorter than one.
  int64_t total_steps = 0;
  int64_t total_rounds = 0;
  // Rounded up.
  int64_t total_epochs = 0;

  // Whether an optimizer step ends where `rounds` of the 0-based epoch are done; true at the start.
  bool StepEndsAt(int64_t epoch, int64_t rounds) const;

  // Rounds of the step that begins where `rounds` of an epoch are done.
  int64_t BatchesOfStepAt(int64_t rounds) const;
};

// Seed of initialisation and dropout.
int64_t SeedOf(const accel::v1::LoopSpec& spec);

// `rounds_per_epoch` is at least 1. Without num_steps in `accumulation`, every round is a step.
LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec,
                      const accel::v1::GradientAccumulationPlugin& accumulation,
                      int64_t rounds_per_epoch);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_PLAN_H_
