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
    condition.metric = given.metric();
    condition.mode = ModeOf(given);
    conditions_.push_back(std::move(condition));
  }
}

bool EarlyStopping::Watches(absl::string_view metric) const {
  return std::any_of(conditions_.begin(), conditions_.end(),
                     [metric](const Condition& condition) { return condition.metric == metric; });
}

bool EarlyStopping::Condition::IsBetter(double value) const {
  if (!std::isfinite(value)) return false;
  if (!best.has_value()) return true;
  return greater_is_better() ? value > *best + min_delta : value < *best - min_delta;
}

bool EarlyStopping::Condition::ReachesThreshold(double value) const {
  if (!threshold.has_value()) return false;
  return greater_is_better() ? value >= *threshold : value <= *threshold;
}

std::string EarlyStopping::Condition::Observe(double value, int64_t step) {
  if (IsBetter(value)) {
    best = value;
    best_step = step;
    waited = 0;
  } else {
    ++waited;
  }
  if (ReachesThreshold(value)) {
    return absl::StrCat(metric, " has reached ", *threshold, " with ", value);
  }
  if (!patience.has_value() || waited < *patience) return "";
  if (!best.has_value()) {
    return absl::StrCat(metric, " has not been finite for ", waited, " values");
  }
  return absl::StrCat(metric, " has not been better than ", *best, " (step ", best_step, ") for ",
                      waited, " values");
}

std::optional<EarlyStopped> EarlyStopping::Observe(absl::string_view metric, double value,
                                                   int64_t step) {
  std::optional<EarlyStopped> stopped;
  for (Condition& condition : conditions_) {
    if (condition.metric != metric) continue;
    std::string reason = condition.Observe(value, step);
    if (reason.empty() || stopped.has_value()) continue;
    stopped.emplace();
    stopped->set_metric(condition.metric);
    stopped->set_value(value);
    if (condition.best.has_value()) {
      stopped->set_best_value(*condition.best);
      stopped->set_best_step(condition.best_step);
    }
    stopped->set_reason(std::move(reason));
  }
  return stopped;
}

nlohmann::json EarlyStopping::Condition::Save() const {
  nlohmann::json saved{{"metric", metric}, {"mode", mode}, {"waited", waited}};
  if (best.has_value()) {
    saved["best"] = *best;
    saved["best_step"] = best_step;
  }
  return saved;
}

void EarlyStopping::Condition::Restore(const nlohmann::json& saved) {
  if (saved.at("metric") != metric || saved.at("mode") != mode) return;
  waited = saved.at("waited").get<int64_t>();
  if (!saved.contains("best")) return;
  best = saved.at("best").get<double>();
  best_step = saved.at("best_step").get<int64_t>();
}

StateSection EarlyStopping::Section() {
  StateSection section;
  section.name = "early_stopping";
  section.save = [this]() -> absl::StatusOr<SectionState> {
    SectionState state;
    for (const Condition& condition : conditions_) {
      state.values["conditions"].push_back(condition.Save());
    }
    return state;
  };
  section.restore = [this](const SectionState& state) -> absl::Status {
    const nlohmann::json saved = state.values.value("conditions", nlohmann::json::array());
    for (size_t i = 0; i < std::min(saved.size(), conditions_.size()); ++i) {
      conditions_[i].Restore(saved[i]);
    }
    return absl::OkStatus();
  };
  return section;
}

}  // namespace accel::engine
