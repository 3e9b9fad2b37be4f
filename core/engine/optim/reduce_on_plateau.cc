#include "core/engine/optim/reduce_on_plateau.h"

#include <algorithm>
#include <limits>

namespace accel::engine {
namespace {

std::string MetricOf(const accel::v1::ReduceOnPlateauSchedule& spec) {
  return spec.has_metric() ? spec.metric() : "eval/loss";
}

bool GreaterIsBetter(const accel::v1::ReduceOnPlateauSchedule& spec) {
  return spec.has_mode() ? spec.mode() == "max" : MetricOf(spec) == "eval/accuracy";
}

}  // namespace

ReduceOnPlateau::ReduceOnPlateau(const accel::v1::ReduceOnPlateauSchedule& spec, double rate)
    : spec_(spec), metric_(MetricOf(spec)), greater_is_better_(GreaterIsBetter(spec)) {
  state_.rate = rate;
}

bool ReduceOnPlateau::IsBetter(double value) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double best = state_.best.value_or(greater_is_better_ ? -kInfinity : kInfinity);
  const double threshold = spec_.has_threshold() ? spec_.threshold() : 1e-4;
  if (spec_.threshold_mode() == "abs") {
    return greater_is_better_ ? value > best + threshold : value < best - threshold;
  }
  return greater_is_better_ ? value > best * (threshold + 1.0) : value < best * (1.0 - threshold);
}

void ReduceOnPlateau::Add(double loss) {
  state_.loss_sum += loss;
  ++state_.losses;
}

void ReduceOnPlateau::EndEpoch() {
  if (state_.losses == 0) return;
  const double mean = state_.loss_sum / static_cast<double>(state_.losses);
  state_.loss_sum = 0;
  state_.losses = 0;
  Observe(mean);
}

void ReduceOnPlateau::Observe(double value) {
  if (IsBetter(value)) {
    state_.best = value;
    state_.bad_values = 0;
  } else {
    ++state_.bad_values;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.bad_values = 0;
  }
  const int64_t patience = spec_.has_patience() ? spec_.patience() : 10;
  if (state_.bad_values <= patience) return;
  const double factor = spec_.has_factor() ? spec_.factor() : 0.1;
  const double reduced = std::max(state_.rate * factor, spec_.min_lr());
  if (state_.rate - reduced > (spec_.has_eps() ? spec_.eps() : 1e-8)) state_.rate = reduced;
  state_.cooldown = spec_.cooldown();
  state_.bad_values = 0;
}

}  // namespace accel::engine
