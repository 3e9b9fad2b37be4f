#ifndef ACCEL_SERVER_DAEMON_PROFILE_SERVICE_H_
#define ACCEL_SERVER_DAEMON_PROFILE_SERVICE_H_

#include "accel/v1/profile.grpc.pb.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// accel.v1.ProfileService: every method answers UNIMPLEMENTED and names itself.
class ProfileService final : public accel::v1::ProfileService::CallbackService {
 public:
  explicit ProfileService(ServiceEnvironment* environment) : environment_(environment) {}

  grpc::ServerWriteReactor<accel::v1::TraceChunk>* ProfileJob(
      grpc::CallbackServerContext* context, const accel::v1::ProfileJobRequest* request) override;
  grpc::ServerUnaryReactor* ListTraces(grpc::CallbackServerContext* context,
                                       const accel::v1::ListTracesRequest* request,
                                       accel::v1::ListTracesResponse* response) override;
  grpc::ServerWriteReactor<accel::v1::TraceChunk>* GetTrace(
      grpc::CallbackServerContext* context, const accel::v1::GetTraceRequest* request) override;

 private:
  ServiceEnvironment* const environment_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_PROFILE_SERVICE_H_
