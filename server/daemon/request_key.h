#ifndef ACCEL_SERVER_DAEMON_REQUEST_KEY_H_
#define ACCEL_SERVER_DAEMON_REQUEST_KEY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/errors.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/proto_bytes.h"

namespace accel::daemon {

// Adds what is wrong with a request_id: at most 64 printable ASCII characters without spaces.
void ValidateRequestId(absl::string_view request_id, FieldViolations* violations);

// Key of a request that has a request_id.
template <typename Request>
absl::StatusOr<RequestKey> MakeRequestKey(absl::string_view method, const Request& request) {
  FieldViolations violations;
  ValidateRequestId(request.request_id(), &violations);
  if (!violations.empty()) return violations.ToStatus();
  return RequestKey{std::string(method), request.request_id(),
                    request.request_id().empty() ? "" : DeterministicBytes(request)};
}

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_REQUEST_KEY_H_
