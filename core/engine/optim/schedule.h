#ifndef ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_
#define ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_

#include <cstdint>

#include "accel/v1/training.pb.h"

namespace accel::engine {

// The learning rate over the schedule's steps, as torch.optim.lr_scheduler.LambdaLR computes it:
// base rate times a factor of the step.
class Schedule {
 public:
  // `job_steps` are the schedule's steps in the whole job, the default of `total_steps`.
  // `steps_per_update` is by how much an update in Advance() goes on.
  Schedule(const accel::v1::ScheduleSpec& spec, double base_rate, int64_t job_steps,
           int64_t steps_per_update);

  // Rate at the present step, which starts at 0.
  double LearningRate() const { return base_rate_ * Factor(step_); }

  // Goes on after `updates` batches or optimizer steps, whichever the schedule counts.
  void Advance(int64_t updates = 1) { step_ += updates * steps_per_update_; }

  int64_t step() const { return step_; }
  void set_step(int64_t step) { step_ = step; }

  // Factor of the base rate at a step of the schedule.
  double Factor(int64_t step) const;

 private:
  const accel::v1::ScheduleSpec::ScheduleCase kind_;
  const double base_rate_;
  const int64_t steps_per_update_;
  int64_t warmup_steps_ = 0;
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_
