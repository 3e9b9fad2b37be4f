#ifndef ACCEL_SERVER_DAEMON_CHECKPOINT_SERVICE_H_
#define ACCEL_SERVER_DAEMON_CHECKPOINT_SERVICE_H_

#include "accel/v1/checkpoint.grpc.pb.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// accel.v1.CheckpointService: lists from the jobs' records, asks supervisors.
class CheckpointService final : public accel::v1::CheckpointService::CallbackService {
 public:
  explicit CheckpointService(ServiceEnvironment* environment) : environment_(environment) {}

  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const accel::v1::ListCheckpointsRequest* request,
                                            accel::v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* GetCheckpoint(grpc::CallbackServerContext* context,
                                          const accel::v1::GetCheckpointRequest* request,
                                          accel::v1::Checkpoint* response) override;
  grpc::ServerUnaryReactor* CreateCheckpoint(grpc::CallbackServerContext* context,
                                             const accel::v1::CreateCheckpointRequest* request,
                                             google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* DeleteCheckpoint(grpc::CallbackServerContext* context,
                                             const accel::v1::DeleteCheckpointRequest* request,
                                             google::protobuf::Empty* response) override;

 private:
  absl::Status List(const accel::v1::ListCheckpointsRequest& request,
                    accel::v1::ListCheckpointsResponse* response);

  ServiceEnvironment* const environment_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_CHECKPOINT_SERVICE_H_
