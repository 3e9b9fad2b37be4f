#include "server/daemon/profile_service.h"

#include "core/base/errors.h"
#include "server/daemon/cursor_stream.h"

namespace accel::daemon {

grpc::ServerWriteReactor<accel::v1::TraceChunk>* ProfileService::ProfileJob(
    grpc::CallbackServerContext*, const accel::v1::ProfileJobRequest*) {
  return new RefusedStream<accel::v1::TraceChunk>(NotImplemented("ProfileService.ProfileJob"));
}

grpc::ServerUnaryReactor* ProfileService::ListTraces(grpc::CallbackServerContext* context,
                                                     const accel::v1::ListTracesRequest*,
                                                     accel::v1::ListTracesResponse*) {
  return RunUnary(environment_, context, "ProfileService.ListTraces", nullptr,
                  [] { return NotImplemented("ProfileService.ListTraces"); });
}

grpc::ServerWriteReactor<accel::v1::TraceChunk>* ProfileService::GetTrace(
    grpc::CallbackServerContext*, const accel::v1::GetTraceRequest*) {
  return new RefusedStream<accel::v1::TraceChunk>(NotImplemented("ProfileService.GetTrace"));
}

}  // namespace accel::daemon
