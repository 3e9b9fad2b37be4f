#include "core/engine/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace accel::engine {

using accel::v1::ScheduleSpec;

Schedule::Schedule(const ScheduleSpec& spec, double base_rate, int64_t job_steps,
                   int64_t steps_per_update)
    : kind_(spec.schedule_case()), base_rate_(base_rate), steps_per_update_(steps_per_update) {
  const auto read = [&](const auto& schedule) {
    warmup_steps_ = schedule.warmup_steps();
    total_steps_ = schedule.has_total_steps() ? schedule.total_steps() : job_steps;
  };
  if (kind_ == ScheduleSpec::kLinear) read(spec.linear());
  if (kind_ == ScheduleSpec::kCosine) read(spec.cosine());
}

double Schedule::Factor(int64_t step) const {
  if (kind_ != ScheduleSpec::kLinear && kind_ != ScheduleSpec::kCosine) return 1.0;
  if (step < warmup_steps_) {
    return static_cast<double>(step) / static_cast<double>(warmup_steps_);
  }
  // A job shorter than its own warm-up has no decay to divide by.
  const auto decay_steps = static_cast<double>(std::max<int64_t>(1, total_steps_ - warmup_steps_));
  if (kind_ == ScheduleSpec::kLinear) {
    return std::max(0.0, static_cast<double>(total_steps_ - step) / decay_steps);
  }
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps_) / decay_steps);
  return std::max(0.0, 0.5 * (1.0 + std::cos(M_PI * progress)));
}

}  // namespace accel::engine
