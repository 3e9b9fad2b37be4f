#ifndef ACCEL_CORE_TRACKING_RUN_IDENTITY_H_
#define ACCEL_CORE_TRACKING_RUN_IDENTITY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace accel::tracking {

// Names of runs and rows that come out the same in every process that feeds a job's trackers, so
// that a run is found again and a row that is sent again is the same row: the first digits of a
// SHA-256 over the parts.

// `digits` hexadecimal digits, at most 64.
std::string DerivedHex(absl::string_view uid, absl::string_view purpose, size_t digits);

// `letters` of a-z and 0-9, at most 32.
std::string DerivedName(absl::string_view uid, absl::string_view purpose, size_t letters);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_RUN_IDENTITY_H_
