#ifndef ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_
#define ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "accel/v1/schedule.pb.h"
#include "core/engine/optim/reduce_on_plateau.h"

namespace accel::engine {

// The learning rate, and with one_cycle the momentum, over the schedule's steps, in the arithmetic
// of the torch.optim.lr_scheduler class, or of the Transformers function for LambdaLR, that
// schedule.proto names for it.
class Schedule {
 public:
  // `job_steps` are the schedule's steps in the whole job, the default of `total_steps`.
  // `steps_per_update` is by how much an update in Advance() goes on.
  Schedule(const accel::v1::ScheduleSpec& spec, double base_rate, int64_t job_steps,
           int64_t steps_per_update);

  // Rate at the present step, which starts at 0.
  double LearningRate() const { return plateau_.has_value() ? plateau_->rate() : rate_; }

  // Momentum at the present step; absent where the schedule leaves it alone.
  std::optional<double> Momentum() const;

  // Goes on after `updates` batches or optimizer steps, whichever the schedule counts.
  void Advance(int64_t updates = 1) { MoveTo(step_ + updates * steps_per_update_); }

  // Whether the schedule goes by values of `metric`.
  bool Watches(absl::string_view metric) const {
    return plateau_.has_value() && plateau_->metric() == metric;
  }

  int64_t step() const { return step_; }

  // Goes to any step from the start. Takes time in proportion to `step` for the schedules that
  // multiply by gamma.
  void set_step(int64_t step);

  // Null where the schedule goes by no metric.
  ReduceOnPlateau* plateau() { return plateau_.has_value() ? &*plateau_ : nullptr; }

 private:
  void MoveTo(int64_t step);
  // The rate where it is a function of the step alone.
  double RateAt(int64_t step) const;
  // Whether a schedule with a gamma multiplies by it at `step`.
  bool DecaysAt(int64_t step) const;

  const accel::v1::ScheduleSpec spec_;
  const double base_rate_;
  const int64_t job_steps_;
  const int64_t steps_per_update_;
  int64_t step_ = 0;
  double rate_ = 0;
  std::optional<ReduceOnPlateau> plateau_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_SCHEDULE_H_
