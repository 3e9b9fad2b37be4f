#ifndef ACCEL_CORE_BASE_FLAG_TEXT_H_
#define ACCEL_CORE_BASE_FLAG_TEXT_H_

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace accel {

// What an environment variable says that is a switch: 1, true, yes, ... or 0, false, no, ...;
// `fallback` for every other text.
inline bool FlagOr(absl::string_view text, bool fallback) {
  bool value = false;
  return absl::SimpleAtob(text, &value) ? value : fallback;
}

}  // namespace accel

#endif  // ACCEL_CORE_BASE_FLAG_TEXT_H_
