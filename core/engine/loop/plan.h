#ifndef ACCEL_CORE_ENGINE_LOOP_PLAN_H_
#define ACCEL_CORE_ENGINE_LOOP_PLAN_H_

#include <cstdint>

#include "accel/v1/kwargs.pb.h"
#include "accel/v1/training.pb.h"
#include "core/engine/loop/position.h"

namespace accel::engine {

// How long a job is, and which of its batches make an optimizer step together. A round is one batch
// of every rank.
struct LoopPlan {
  // 0 where only an epoch's end tells.
  int64_t rounds_per_epoch = 0;
  // Rounds of an optimizer step; its last one in an epoch may have fewer.
  int64_t accumulation = 1;
  // Whether a step ends with the epoch. Otherwise it goes on in the next one, and the rounds after
  // the job's last step only accumulate.
  bool sync_with_dataloader = true;
  // Ends of the job, whichever comes first; 0: none.
  int64_t max_steps = 0;
  int64_t num_epochs = 0;
  // Optimizer steps; 0 where the job is shorter than one, or where only its end tells.
  int64_t total_steps = 0;
  // Rounds; without rounds_per_epoch those of max_steps full steps, or 0.
  int64_t total_rounds = 0;
  // Rounded up; 0 where only the job's end tells.
  int64_t total_epochs = 0;

  // Whether the round behind `position`, the last of its epoch or not, completes an optimizer step.
  bool CompletesStep(const Position& position, bool last_of_epoch) const;

  // Whether the job ends at `position`.
  bool EndsAt(const Position& position) const;
};

// `rounds_per_epoch` is at least 1, or 0 where only an epoch's end tells. Without num_steps in
// `accumulation`, every round is a step.
LoopPlan MakeLoopPlan(const accel::v1::LoopSpec& spec,
                      const accel::v1::GradientAccumulationPlugin& accumulation,
                      int64_t rounds_per_epoch);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_PLAN_H_
