#ifndef ACCEL_SERVER_DAEMON_API_SERVER_H_
#define ACCEL_SERVER_DAEMON_API_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "server/daemon/address.h"

namespace accel::daemon {

// A gRPC server with the node's services, health (Check and Watch) and reflection.
class ApiServer {
 public:
  // Serves on all addresses, every service SERVING. ALREADY_EXISTS with reason ADDRESS_IN_USE. The
  // services must outlive the server.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Start(
      const std::vector<Address>& addresses, const std::vector<grpc::Service*>& services);
  ~ApiServer();

  // Clients that watch the health see NOT_SERVING from here on.
  void SetNotServing();
  // No new calls; open ones are cancelled after `patience`.
  void Shutdown(absl::Duration patience);

  // With the ports that were bound.
  const std::vector<std::string>& addresses() const { return addresses_; }

 private:
  ApiServer(std::unique_ptr<grpc::Server> server, std::vector<std::string> addresses)
      : server_(std::move(server)), addresses_(std::move(addresses)) {}

  const std::unique_ptr<grpc::Server> server_;
  const std::vector<std::string> addresses_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_API_SERVER_H_
