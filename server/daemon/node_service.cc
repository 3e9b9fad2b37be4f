#include "server/daemon/node_service.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/config/accelerator.h"

namespace accel::daemon {

void NodeService::SetListenAddresses(const std::vector<std::string>& addresses) {
  absl::MutexLock lock(&mutex_);
  node_.mutable_listen_addresses()->Assign(addresses.begin(), addresses.end());
}

grpc::ServerUnaryReactor* NodeService::GetNode(grpc::CallbackServerContext* context,
                                               const accel::v1::GetNodeRequest*,
                                               accel::v1::Node* response) {
  return RunUnary(environment_, context, "NodeService.GetNode", nullptr, [this, response] {
    const NodeLoad load = environment_->jobs->Load();
    absl::MutexLock lock(&mutex_);
    *response = node_;
    response->set_ranks_in_use(load.ranks_in_use);
    response->set_queued_jobs(load.queued_jobs);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* NodeService::ResolveAccelerator(
    grpc::CallbackServerContext* context, const accel::v1::ResolveAcceleratorRequest* request,
    accel::v1::ResolveAcceleratorResponse* response) {
  return RunUnary(
      environment_, context, "NodeService.ResolveAccelerator", nullptr,
      [this, request, response]() -> absl::Status {
        const std::string device = request->has_device() ? request->device() : "cpu";
        if (device != "cpu" && device != "cuda") {
          return InvalidField("device", absl::StrCat("got \"", device.substr(0, 100),
                                                     "\"; must be \"cpu\" or \"cuda\""));
        }
        ACCEL_ASSIGN_OR_RETURN(config::ResolvedAccelerator resolved,
                               config::ResolveAccelerator(request->accelerator(), device));
        *response->mutable_resolved() = std::move(resolved.resolved);
        *response->mutable_difference() = std::move(resolved.difference);
        for (std::string& warning : resolved.warnings) response->add_warnings(std::move(warning));
        return absl::OkStatus();
      });
}

}  // namespace accel::daemon
