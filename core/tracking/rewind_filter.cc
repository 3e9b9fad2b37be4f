#include "core/tracking/rewind_filter.h"

#include <algorithm>

namespace accel::tracking {

bool RewindFilter::BeginsAttempt(int32_t attempt) const {
  return attempt > attempt_ && !latest_.empty();
}

std::optional<RewindFilter::Repeat> RewindFilter::Take(LogCall* call, bool drop) {
  const int64_t step = call->step.value_or(0);
  std::optional<Repeat> repeat;
  if (BeginsAttempt(call->attempt)) {
    earlier_ = latest_;
    int64_t last = step - 1;
    for (const auto& [key, greatest] : earlier_) last = std::max(last, greatest);
    if (last >= step) repeat = Repeat{step, last};
  }
  attempt_ = std::max(attempt_, call->attempt);
  for (auto value = call->values.begin(); value != call->values.end();) {
    const auto earlier = earlier_.find(value->first);
    const bool repeats = earlier != earlier_.end() && step <= earlier->second;
    auto [latest, is_new] = latest_.try_emplace(value->first, step);
    latest->second = std::max(latest->second, step);
    value = repeats && drop ? call->values.erase(value) : std::next(value);
  }
  return repeat;
}

}  // namespace accel::tracking
