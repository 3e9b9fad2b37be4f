#ifndef ACCEL_CORE_TRACKING_REWIND_FILTER_H_
#define ACCEL_CORE_TRACKING_REWIND_FILTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/tracking/tracker.h"

namespace accel::tracking {

// Finds the values of steps that an attempt of the job trains again after an earlier attempt had
// logged them. Sees every row of the record in order. Values of one key are compared with each
// other only, since an evaluation may have been cut off that training was ahead of.
class RewindFilter {
 public:
  // Steps that were trained again.
  struct Repeat {
    int64_t first = 0;
    int64_t last = 0;
  };

  // Whether a row of this attempt would be the first of its attempt, with an earlier one before it.
  bool BeginsAttempt(int32_t attempt) const;

  // Takes the row in, and out of it the values that repeat a step, where `drop` is set. Tells what
  // the row's attempt has repeated, when the row is its first one.
  std::optional<Repeat> Take(LogCall* call, bool drop);

 private:
  int32_t attempt_ = 0;
  // Greatest step by key: of earlier attempts, and of all.
  std::map<std::string, int64_t> earlier_;
  std::map<std::string, int64_t> latest_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_REWIND_FILTER_H_
