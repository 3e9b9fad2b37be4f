#include "core/tracking/swanlab/cloud_tracker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::tracking::swanlab {
namespace {

// Of one request: the service's limits.
constexpr size_t kMaxPoints = 10'000;
constexpr size_t kMaxKeys = 3000;
constexpr absl::Duration kHeartbeatInterval = absl::Minutes(10);

absl::string_view StateOf(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return "FINISHED";
    case RunOutcome::kFailed:
      return "CRASHED";
    case RunOutcome::kCancelled:
      return "ABORTED";
  }
  return "CRASHED";
}

}  // namespace

absl::Status CloudTracker::Start(std::optional<int64_t> /*resume_step*/) {
  ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.Open(options_, clock_->Now())));
  for (const auto& [key, step] : api_.held()) {
    points_.Held(key, step);
    keys_.insert(key);
  }
  return KeepAlive();
}

absl::Status CloudTracker::StoreInitConfiguration(const ConfigMap& values) {
  return RefusedForGood(api_.SetConfig(ConfigText(values)));
}

absl::Status CloudTracker::Log(const std::vector<LogCall>& calls) {
  const std::vector<Point> points = points_.Of(calls);
  ACCEL_RETURN_IF_ERROR(KeepAlive());
  ACCEL_RETURN_IF_ERROR(AddNewKeys(points));
  for (size_t first = 0; first < points.size(); first += kMaxPoints) {
    const size_t count = std::min(kMaxPoints, points.size() - first);
    const Point* const part = points.data() + first;
    ACCEL_RETURN_IF_ERROR(SendSplitting(
        count, [&](size_t from, size_t to) { return api_.SendPoints(part + from, to - from); },
        [&](size_t at, const absl::Status& refused) {
          omissions_.Note(part[at].key, absl::StrCat("was refused, left out: ", refused.message()));
        },
        [&](size_t sent) {
          for (size_t i = 0; i < sent; ++i) points_.Held(part[i].key, part[i].step);
        }));
  }
  return absl::OkStatus();
}

absl::Status CloudTracker::Finish(RunOutcome outcome) {
  omissions_.SayTotals();
  return RefusedForGood(api_.SetState(StateOf(outcome), clock_->Now()));
}

absl::Status CloudTracker::AddNewKeys(const std::vector<Point>& points) {
  std::set<std::string> fresh;
  for (const Point& point : points) {
    if (keys_.count(point.key) == 0) fresh.insert(point.key);
  }
  const std::vector<std::string> keys(fresh.begin(), fresh.end());
  for (size_t first = 0; first < keys.size(); first += kMaxKeys) {
    const size_t last = std::min(keys.size(), first + kMaxKeys);
    const absl::Status status = api_.AddKeys({keys.begin() + first, keys.begin() + last});
    if (absl::IsInvalidArgument(status)) {
      // Their values may still be taken; if not, each is said to be refused.
      omissions_.Say(std::string(status.message()));
    } else {
      ACCEL_RETURN_IF_ERROR(status);
    }
    keys_.insert(keys.begin() + first, keys.begin() + last);
  }
  return absl::OkStatus();
}

absl::Status CloudTracker::KeepAlive() {
  // A job that logs less often than this is taken for idle by the service until it logs again.
  const absl::Duration now = clock_->Monotonic();
  if (now - last_heartbeat_ < kHeartbeatInterval) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(api_.Heartbeat());
  last_heartbeat_ = now;
  return absl::OkStatus();
}

}  // namespace accel::tracking::swanlab
