#include "core/engine/loop/early_stopping.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

using accel::v1::EarlyStopped;

std::string ModeOf(const accel::v1::EarlyStopping& condition) {
  if (condition.has_mode()) return condition.mode();
  return condition.metric() == "eval/accuracy" ? "max" : "min";
}

}  // namespace

EarlyStopping::EarlyStopping(const accel::v1::LoopSpec& loop) {
  for (const accel::v1::EarlyStopping& given : loop.early_stopping()) {
    Condition condition;
    if (given.has_patience()) condition.patience = given.patience();
    condition.min_delta = given.min_delta();
    if (given.has_threshold()) condition.threshold = given.threshold();
    condition.state.metric = given.metric();
    condition.state.mode = ModeOf(given);
    conditions_.push_back(std::move(condition));
  }
}

bool EarlyStopping::Watches(absl::string_view metric) const {
  return std::any_of(conditions_.begin(), conditions_.end(), [metric](const Condition& condition) {
    return condition.state.metric == metric;
  });
}

bool EarlyStopping::Condition::IsBetter(double value) const {
  if (!std::isfinite(value)) return false;
  if (!state.best.has_value()) return true;
  return greater_is_better() ? value > *state.best + min_delta : value < *state.best - min_delta;
}

bool EarlyStopping::Condition::ReachesThreshold(double value) const {
  if (!threshold.has_value()) return false;
  return greater_is_better() ? value >= *threshold : value <= *threshold;
}

std::string EarlyStopping::Condition::Observe(double value, int64_t step) {
  if (IsBetter(value)) {
    state.best = value;
    state.best_step = step;
    state.waited = 0;
  } else {
    ++state.waited;
  }
  if (ReachesThreshold(value)) {
    return absl::StrCat(state.metric, " has reached ", *threshold, " with ", value);
  }
  if (!patience.has_value() || state.waited < *patience) return "";
  if (!state.best.has_value()) {
    return absl::StrCat(state.metric, " has not been finite for ", state.waited, " values");
  }
  return absl::StrCat(state.metric, " has not been better than ", *state.best, " (step ",
                      state.best_step, ") for ", state.waited, " values");
}

std::optional<EarlyStopped> EarlyStopping::Observe(absl::string_view metric, double value,
                                                   int64_t step) {
  std::optional<EarlyStopped> stopped;
  for (Condition& condition : conditions_) {
    if (condition.state.metric != metric) continue;
    std::string reason = condition.Observe(value, step);
    if (reason.empty() || stopped.has_value()) continue;
    stopped.emplace();
    stopped->set_metric(condition.state.metric);
    stopped->set_value(value);
    if (condition.state.best.has_value()) {
      stopped->set_best_value(*condition.state.best);
      stopped->set_best_step(condition.state.best_step);
    }
    stopped->set_reason(std::move(reason));
  }
  return stopped;
}

std::vector<EarlyStopping::State> EarlyStopping::Save() const {
  std::vector<State> states;
  for (const Condition& condition : conditions_) states.push_back(condition.state);
  return states;
}

void EarlyStopping::Restore(const std::vector<State>& saved) {
  for (size_t i = 0; i < std::min(saved.size(), conditions_.size()); ++i) {
    State& state = conditions_[i].state;
    if (saved[i].metric == state.metric && saved[i].mode == state.mode) state = saved[i];
  }
}

}  // namespace accel::engine
