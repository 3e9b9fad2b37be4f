#ifndef ACCEL_CLIENT_CHANNEL_H_
#define ACCEL_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace accel::client {

// A channel to a daemon on this machine: `unix:<path>`, or `<host>:<port>` with a loopback host.
// Connects with the first call. Keepalive pings go out every 20 s while a call is open; unary calls
// are retried on UNAVAILABLE by gRPC, 4 tries in about a second; streams are not. INVALID_ARGUMENT
// for any other address: the channel is not encrypted.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(absl::string_view address,
                                                           const std::string& user_agent);

// Asks grpc.health.v1 about the whole server. OK when it is SERVING, UNAVAILABLE when it is not or
// cannot be reached, DEADLINE_EXCEEDED when it does not answer within `timeout`.
absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace accel::client

#endif  // ACCEL_CLIENT_CHANNEL_H_
