#ifndef ACCEL_CORE_BASE_CLOCK_H_
#define ACCEL_CORE_BASE_CLOCK_H_

#include <cstdint>

#include "absl/time/time.h"

namespace accel {

// The seam for time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Wall time, for display only: it may jump.
  virtual absl::Time Now() const = 0;

  // Time since an arbitrary start that never jumps; for every interval and deadline.
  virtual absl::Duration Monotonic() const = 0;

  // The machine's clocks; never destroyed.
  static const Clock& Real();
};

// Microseconds since 1970 of wall time.
inline int64_t NowMicros(const Clock& clock) { return absl::ToUnixMicros(clock.Now()); }

}  // namespace accel

#endif  // ACCEL_CORE_BASE_CLOCK_H_
