#include "client/channel.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/call_status.h"
#include "google/protobuf/empty.pb.h"
#include "google/protobuf/unknown_field_set.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/security/credentials.h"

namespace accel::client {
namespace {

// Every method of these services reads, or writes with a request id that makes a repeat harmless.
constexpr char kServiceConfig[] = R"({"methodConfig": [{
  "name": [{"service": "accel.v1.JobService"}, {"service": "accel.v1.CheckpointService"},
           {"service": "accel.v1.NodeService"}],
  "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s",
                  "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";

constexpr int kMaxMessageBytes = 64 << 20;

bool IsLoopback(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
  return host == "localhost";
}

absl::Status ValidateAddress(absl::string_view address) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    if (!path.empty()) return absl::OkStatus();
  } else if (const size_t colon = address.rfind(':'); colon != absl::string_view::npos) {
    absl::string_view host = address.substr(0, colon);
    if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
    int port = 0;
    if (absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port < 65536 &&
        IsLoopback(std::string(host))) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", address,
                   "\" is neither unix:<path> nor <host>:<port> with a loopback host (127.0.0.1, "
                   "[::1], localhost) and a port of 1 to 65535"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(absl::string_view address,
                                                           const std::string& user_agent) {
  if (absl::Status status = ValidateAddress(address); !status.ok()) return status;
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetUserAgentPrefix(user_agent);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A fresh connection for each client: what one learned about a daemon must not delay another.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(std::string(address), grpc::InsecureChannelCredentials(),
                                   arguments);
}

absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  // HealthCheckRequest with no service is the empty message; HealthCheckResponse has one field,
  // status = 1, of which SERVING is 1. It is read from the unknown fields.
  using google::protobuf::Empty;
  grpc::TemplatedGenericStub<Empty, Empty> stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  Empty request;
  Empty response;
  grpc::Status status;
  absl::Notification done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](grpc::Status result) {
                   status = std::move(result);
                   done.Notify();
                 });
  done.WaitForNotification();
  if (!status.ok()) return FromGrpcStatus(status);
  const google::protobuf::UnknownFieldSet& fields =
      response.GetReflection()->GetUnknownFields(response);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    const bool is_status =
        field.number() == 1 && field.type() == google::protobuf::UnknownField::TYPE_VARINT;
    if (is_status && field.varint() == 1) return absl::OkStatus();
  }
  return absl::UnavailableError("daemon is not serving (it starts or drains)");
}

}  // namespace accel::client
