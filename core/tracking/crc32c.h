#ifndef ACCEL_CORE_TRACKING_CRC32C_H_
#define ACCEL_CORE_TRACKING_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace accel::tracking {

// CRC-32C (Castagnoli, RFC 3720 appendix B.4).
uint32_t Crc32c(absl::string_view bytes);

// The CRC-32C as TFRecord files store it: rotated right by 15 bits plus a constant, so that a
// checksum of data that holds checksums stays useful.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_CRC32C_H_
