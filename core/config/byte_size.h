#ifndef ACCEL_CORE_CONFIG_BYTE_SIZE_H_
#define ACCEL_CORE_CONFIG_BYTE_SIZE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace accel::config {

// A size in bytes: a whole number, or a number with KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB
// or TiB in any case, rounded down, as huggingface_hub reads sizes. None unless it is 1 to 2^62.
std::optional<int64_t> ParseByteSize(absl::string_view text);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_BYTE_SIZE_H_
