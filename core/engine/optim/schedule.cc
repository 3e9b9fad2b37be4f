#include "core/engine/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace accel::engine {
namespace {

using accel::v1::OneCycleSchedule;
using accel::v1::ScheduleSpec;

template <typename Spec>
int64_t TotalSteps(const Spec& spec, int64_t job_steps) {
  return spec.has_total_steps() ? spec.total_steps() : job_steps;
}

// A job shorter than its own warm-up has no decay to divide by.
template <typename Spec>
double DecaySteps(const Spec& spec, int64_t job_steps) {
  const int64_t steps = TotalSteps(spec, job_steps) - spec.warmup_steps();
  return static_cast<double>(std::max<int64_t>(1, steps));
}

// From 0 at the end of the warm-up to 1 at total_steps, and further.
template <typename Spec>
double Progress(const Spec& spec, int64_t step, int64_t job_steps) {
  return static_cast<double>(step - spec.warmup_steps()) / DecaySteps(spec, job_steps);
}

// Factors after the warm-up.

double Factor(const accel::v1::ConstantSchedule&, int64_t, int64_t, double) { return 1; }

double Factor(const accel::v1::LinearSchedule& spec, int64_t step, int64_t job_steps, double) {
  const auto left = static_cast<double>(TotalSteps(spec, job_steps) - step);
  return std::max(0.0, left / DecaySteps(spec, job_steps));
}

double Factor(const accel::v1::CosineSchedule& spec, int64_t step, int64_t job_steps, double) {
  const double cycles = spec.has_num_cycles() ? spec.num_cycles() : 0.5;
  const double progress = std::min(1.0, Progress(spec, step, job_steps));
  return std::max(0.0, 0.5 * (1.0 + std::cos(M_PI * cycles * 2.0 * progress)));
}

double Factor(const accel::v1::CosineWithRestartsSchedule& spec, int64_t step, int64_t job_steps,
              double) {
  const double cycles = spec.has_num_cycles() ? spec.num_cycles() : 1;
  const double progress = Progress(spec, step, job_steps);
  if (progress >= 1.0) return 0;
  return std::max(0.0, 0.5 * (1.0 + std::cos(M_PI * std::fmod(cycles * progress, 1.0))));
}

double Factor(const accel::v1::PolynomialSchedule& spec, int64_t step, int64_t job_steps,
              double base_rate) {
  const double last_rate = spec.has_lr_end() ? spec.lr_end() : 1e-7;
  if (step > TotalSteps(spec, job_steps)) return last_rate / base_rate;
  const double left = 1.0 - Progress(spec, step, job_steps);
  const double power = spec.has_power() ? spec.power() : 1;
  return ((base_rate - last_rate) * std::pow(left, power) + last_rate) / base_rate;
}

double Factor(const accel::v1::InverseSqrtSchedule& spec, int64_t step, int64_t, double) {
  const int64_t warmup = spec.warmup_steps();
  const int64_t timescale = spec.has_timescale() ? spec.timescale() : warmup > 0 ? warmup : 10000;
  const auto shifted = static_cast<double>(step + timescale - warmup);
  return 1.0 / std::sqrt(shifted / static_cast<double>(timescale));
}

template <typename Spec>
double WarmedUp(const Spec& spec, int64_t step, int64_t job_steps, double base_rate) {
  const int64_t warmup = spec.warmup_steps();
  if (step < warmup) return base_rate * (static_cast<double>(step) / static_cast<double>(warmup));
  return base_rate * Factor(spec, step, job_steps, base_rate);
}

// A part of OneCycleSchedule, which ends at `end_step`.
struct Phase {
  double end_step;
  double from;
  double to;
};

std::vector<Phase> RatePhases(const OneCycleSchedule& spec, double total, double base_rate) {
  const double highest = spec.has_max_lr() ? spec.max_lr() : base_rate;
  const double first = highest / (spec.has_div_factor() ? spec.div_factor() : 25.0);
  const double last = first / (spec.has_final_div_factor() ? spec.final_div_factor() : 1e4);
  const double start = spec.has_pct_start() ? spec.pct_start() : 0.3;
  const Phase rise{start * total - 1, first, highest};
  if (!spec.three_phase()) return {rise, {total - 1, highest, last}};
  return {rise, {2 * start * total - 2, highest, first}, {total - 1, first, last}};
}

// The momentum goes down while the rate rises, and back.
std::vector<Phase> MomentumPhases(const OneCycleSchedule& spec, double total) {
  const double lowest = spec.has_base_momentum() ? spec.base_momentum() : 0.85;
  const double highest = spec.has_max_momentum() ? spec.max_momentum() : 0.95;
  std::vector<Phase> phases = RatePhases(spec, total, /*base_rate=*/0);
  for (Phase& phase : phases) phase.from = phase.to = highest;
  phases[0].to = phases[1].from = lowest;
  return phases;
}

// Where the curve through `phases` is.
double OneCycleValue(const OneCycleSchedule& spec, const std::vector<Phase>& phases, int64_t step,
                     int64_t total) {
  const auto present = static_cast<double>(std::min(step, total));
  double start_step = 0;
  size_t i = 0;
  for (; i + 1 < phases.size() && present > phases[i].end_step; ++i) {
    start_step = phases[i].end_step;
  }
  const auto [end_step, from, to] = phases[i];
  // A phase of one step is at its end.
  const double part =
      end_step == start_step ? 1.0 : (present - start_step) / (end_step - start_step);
  if (spec.anneal_strategy() == "linear") return (to - from) * part + from;
  return to + (from - to) / 2.0 * (std::cos(M_PI * part) + 1);
}

double OneCycleRate(const OneCycleSchedule& spec, int64_t step, int64_t job_steps,
                    double base_rate) {
  const int64_t total = TotalSteps(spec, job_steps);
  return OneCycleValue(spec, RatePhases(spec, static_cast<double>(total), base_rate), step, total);
}

// What a schedule multiplies the last rate by, where that is how it goes on.
std::optional<double> Gamma(const ScheduleSpec& spec) {
  constexpr double kDefault = 0.1;
  switch (spec.schedule_case()) {
    case ScheduleSpec::kStep:
      return spec.step().has_gamma() ? spec.step().gamma() : kDefault;
    case ScheduleSpec::kMultiStep:
      return spec.multi_step().has_gamma() ? spec.multi_step().gamma() : kDefault;
    case ScheduleSpec::kExponential:
      return spec.exponential().gamma();
    default:
      return std::nullopt;
  }
}

}  // namespace

Schedule::Schedule(const ScheduleSpec& spec, double base_rate, int64_t job_steps,
                   int64_t steps_per_update)
    : spec_(spec),
      base_rate_(base_rate),
      job_steps_(job_steps),
      steps_per_update_(steps_per_update),
      rate_(RateAt(0)) {
  if (spec.has_reduce_on_plateau()) plateau_.emplace(spec.reduce_on_plateau(), base_rate);
}

std::optional<double> Schedule::Momentum() const {
  const OneCycleSchedule& spec = spec_.one_cycle();
  if (!spec_.has_one_cycle() || (spec.has_cycle_momentum() && !spec.cycle_momentum())) {
    return std::nullopt;
  }
  const int64_t total = TotalSteps(spec, job_steps_);
  return OneCycleValue(spec, MomentumPhases(spec, static_cast<double>(total)), step_, total);
}

void Schedule::set_step(int64_t step) {
  step_ = 0;
  rate_ = RateAt(0);
  MoveTo(step);
}

void Schedule::MoveTo(int64_t step) {
  const std::optional<double> gamma = Gamma(spec_);
  if (!gamma.has_value()) {
    step_ = step;
    rate_ = RateAt(step);
    return;
  }
  // One product at a time, as torch does: a power rounds otherwise.
  while (step_ < step) {
    if (DecaysAt(++step_)) rate_ *= *gamma;
  }
}

double Schedule::RateAt(int64_t step) const {
  switch (spec_.schedule_case()) {
    case ScheduleSpec::kConstant:
      return WarmedUp(spec_.constant(), step, job_steps_, base_rate_);
    case ScheduleSpec::kLinear:
      return WarmedUp(spec_.linear(), step, job_steps_, base_rate_);
    case ScheduleSpec::kCosine:
      return WarmedUp(spec_.cosine(), step, job_steps_, base_rate_);
    case ScheduleSpec::kCosineWithRestarts:
      return WarmedUp(spec_.cosine_with_restarts(), step, job_steps_, base_rate_);
    case ScheduleSpec::kPolynomial:
      return WarmedUp(spec_.polynomial(), step, job_steps_, base_rate_);
    case ScheduleSpec::kInverseSqrt:
      return WarmedUp(spec_.inverse_sqrt(), step, job_steps_, base_rate_);
    case ScheduleSpec::kOneCycle:
      return OneCycleRate(spec_.one_cycle(), step, job_steps_, base_rate_);
    case ScheduleSpec::kStep:
    case ScheduleSpec::kMultiStep:
    case ScheduleSpec::kExponential:
    case ScheduleSpec::kReduceOnPlateau:
    case ScheduleSpec::SCHEDULE_NOT_SET:
      break;
  }
  return base_rate_;
}

bool Schedule::DecaysAt(int64_t step) const {
  if (spec_.has_step()) return step % spec_.step().step_size() == 0;
  if (!spec_.has_multi_step()) return true;
  const auto& milestones = spec_.multi_step().milestones();
  return std::binary_search(milestones.begin(), milestones.end(), step);
}

}  // namespace accel::engine
