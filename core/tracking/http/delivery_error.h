#ifndef ACCEL_CORE_TRACKING_HTTP_DELIVERY_ERROR_H_
#define ACCEL_CORE_TRACKING_HTTP_DELIVERY_ERROR_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/tracking/http/http_client.h"

namespace accel::tracking {

// What a failed delivery tells its feed, as payloads of the status.

// Marks an error that repeating cannot mend (a refused key, an unknown run): the feed stops and
// keeps the rows.
absl::Status Permanent(absl::Status status);
bool IsPermanent(const absl::Status& status);

// The server's own wish, from Retry-After.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// OK for 2xx. UNAUTHENTICATED (401) and PERMISSION_DENIED (403), permanent; UNAVAILABLE for what
// passes (408, 425, 429, 5xx), with the server's wish where it is in seconds; INVALID_ARGUMENT for
// every other answer: what was sent is wrong and must not come again as it is. `what` names the
// call; the start of the answer's text is added.
absl::Status HttpStatus(absl::string_view what, const HttpResponse& response);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_DELIVERY_ERROR_H_
