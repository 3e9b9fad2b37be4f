#ifndef ACCEL_SERVER_DAEMON_PAGING_H_
#define ACCEL_SERVER_DAEMON_PAGING_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::daemon {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;
// A page ends early when its messages reach this: an answer must stay below gRPC's 4 MiB.
inline constexpr size_t kPageBytes = 2 << 20;

// The page size that a request means: 0 is the default, above the maximum is the maximum.
// INVALID_ARGUMENT on `page_size` below 0.
absl::StatusOr<int> EffectivePageSize(int32_t page_size);

// An opaque token that goes on below `position`. `filter` is everything else in the request that
// selects what is listed: the token is refused with any other filter.
std::string MakePageToken(absl::string_view filter, int64_t position);

// The position in a token; `first` for an empty one. INVALID_ARGUMENT on `page_token` for a text
// that is no token or one of another filter.
absl::StatusOr<int64_t> ParsePageToken(absl::string_view token, absl::string_view filter,
                                       int64_t first);

// The first 16 hexadecimal digits of the SHA-256 of `text`.
std::string ShortDigest(absl::string_view text);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_PAGING_H_
