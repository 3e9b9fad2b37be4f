#ifndef ACCEL_TESTS_UNIT_TRACKING_FAKE_CLOCK_H_
#define ACCEL_TESTS_UNIT_TRACKING_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace accel {

// Stands still until it is advanced. Thread-safe.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixSeconds(1700000000) + Monotonic(); }
  absl::Duration Monotonic() const override {
    absl::MutexLock lock(&mutex_);
    return elapsed_;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    elapsed_ += duration;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Duration elapsed_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
};

}  // namespace accel

#endif  // ACCEL_TESTS_UNIT_TRACKING_FAKE_CLOCK_H_
