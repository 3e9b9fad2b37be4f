#ifndef ACCEL_SERVER_DAEMON_NODE_SERVICE_H_
#define ACCEL_SERVER_DAEMON_NODE_SERVICE_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "accel/v1/node.grpc.pb.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// accel.v1.NodeService.
class NodeService final : public accel::v1::NodeService::CallbackService {
 public:
  // `node` is everything that does not change, save for the addresses.
  NodeService(ServiceEnvironment* environment, accel::v1::Node node)
      : environment_(environment), node_(std::move(node)) {}

  // Once they are bound.
  void SetListenAddresses(const std::vector<std::string>& addresses);

  grpc::ServerUnaryReactor* GetNode(grpc::CallbackServerContext* context,
                                    const accel::v1::GetNodeRequest* request,
                                    accel::v1::Node* response) override;
  grpc::ServerUnaryReactor* ResolveAccelerator(
      grpc::CallbackServerContext* context, const accel::v1::ResolveAcceleratorRequest* request,
      accel::v1::ResolveAcceleratorResponse* response) override;

 private:
  ServiceEnvironment* const environment_;
  absl::Mutex mutex_;
  accel::v1::Node node_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_NODE_SERVICE_H_
