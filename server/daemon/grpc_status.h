#ifndef ACCEL_SERVER_DAEMON_GRPC_STATUS_H_
#define ACCEL_SERVER_DAEMON_GRPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace accel::daemon {

// The one place where a status becomes an answer. The details of the result are a serialized
// google.rpc.Status with the payloads of `status` (core/base/errors.h) and exactly one ErrorInfo; a
// status without one gets a reason from its code (`INTERNAL`, `DATA_LOSS`, ...).
grpc::Status ToGrpcStatus(const absl::Status& status);

// Reason of the ErrorInfo that `status` carries, or the one that ToGrpcStatus would give it; empty
// for OK.
std::string ReasonOf(const absl::Status& status);

// NOT_FOUND with reason JOB_NOT_FOUND.
absl::Status JobNotFound(absl::string_view job_id);
// FAILED_PRECONDITION; metadata `job` and `state`.
absl::Status WrongJobState(absl::string_view job_id, absl::string_view state,
                           absl::string_view reason, absl::string_view what);
// INVALID_ARGUMENT for a single field.
absl::Status InvalidField(absl::string_view field, absl::string_view description);
// UNAVAILABLE with reason NODE_DRAINING; `sequence` is where a stream may go on (-1: no stream).
absl::Status Draining(int64_t sequence = -1);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_GRPC_STATUS_H_
