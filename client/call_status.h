#ifndef ACCEL_CLIENT_CALL_STATUS_H_
#define ACCEL_CLIENT_CALL_STATUS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/status.h"

namespace accel::client {

// The status of a call. Each detail of the server's google.rpc.Status becomes a payload under its
// type URL (core/base/errors.h names those of this project).
absl::Status FromGrpcStatus(const grpc::Status& status);

// The ErrorInfo that a status carries, if any.
std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status);

// The field violations {path, description} that a status carries, in the server's order.
std::vector<std::pair<std::string, std::string>> ViolationsOf(const absl::Status& status);

}  // namespace accel::client

#endif  // ACCEL_CLIENT_CALL_STATUS_H_
