#ifndef ACCEL_CORE_BASE_UTF8_H_
#define ACCEL_CORE_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace accel {

// `bytes` with every byte that is not part of a well-formed UTF-8 sequence (Unicode 15, table 3-7)
// replaced by U+FFFD.
std::string RepairUtf8(absl::string_view bytes);

// The longest start of well-formed `text` that has at most `max_bytes` bytes and ends between two
// characters.
absl::string_view CutUtf8(absl::string_view text, size_t max_bytes);

}  // namespace accel

#endif  // ACCEL_CORE_BASE_UTF8_H_
