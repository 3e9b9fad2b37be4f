#include "server/daemon/api_server.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace accel::daemon {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;
constexpr size_t kMaxBufferedBytes = size_t{256} << 20;
constexpr int kMaxCallsOfAConnection = 1000;

constexpr const char* kServiceNames[] = {"accel.v1.JobService", "accel.v1.TelemetryService",
                                         "accel.v1.CheckpointService", "accel.v1.NodeService",
                                         "accel.v1.ProfileService"};

void Configure(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  builder->SetResourceQuota(grpc::ResourceQuota("acceld").Resize(kMaxBufferedBytes));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxCallsOfAConnection);
  // Otherwise a second daemon could share a port and take half of the calls.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients may ping every 10 s while they have a call; a client that has vanished is noticed after
  // 40 s.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(
    const std::vector<Address>& addresses, const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(&builder);
  // gRPC says only whether a port was bound, and removes a Unix socket that is in use: asked first.
  std::deque<int> ports;
  for (const Address& address : addresses) {
    ACCEL_RETURN_IF_ERROR(ProbeAddress(address));
    ports.push_back(0);
    builder.AddListeningPort(address.ToString(), grpc::InsecureServerCredentials(), &ports.back());
  }
  for (grpc::Service* const service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    for (const Address& address : addresses) ACCEL_RETURN_IF_ERROR(ProbeAddress(address));
    return absl::InternalError("cannot listen on the addresses of the API");
  }
  std::vector<std::string> bound;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Address address = addresses[i];
    if (!address.is_unix()) address.port = ports[i];
    bound.push_back(address.ToString());
  }
  grpc::HealthCheckServiceInterface* const health = server->GetHealthCheckService();
  for (const char* const name : kServiceNames) health->SetServingStatus(name, true);
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(server), std::move(bound)));
}

ApiServer::~ApiServer() { Shutdown(absl::ZeroDuration()); }

void ApiServer::SetNotServing() { server_->GetHealthCheckService()->SetServingStatus(false); }

void ApiServer::Shutdown(absl::Duration patience) {
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(patience));
}

}  // namespace accel::daemon
