#include "server/daemon/checkpoint_service.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/status_macros.h"
#include "server/daemon/checkpoints.h"
#include "server/daemon/paging.h"
#include "server/daemon/request_key.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {

absl::Status CheckpointService::List(const accel::v1::ListCheckpointsRequest& request,
                                     accel::v1::ListCheckpointsResponse* response) {
  ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request.parent(), "parent"));
  ACCEL_ASSIGN_OR_RETURN(const int page_size, EffectivePageSize(request.page_size()));
  const std::string filter = absl::StrCat("checkpoints;", id);
  ACCEL_ASSIGN_OR_RETURN(const int64_t before, ParsePageToken(request.page_token(), filter,
                                                              std::numeric_limits<int64_t>::max()));
  ACCEL_RETURN_IF_ERROR(environment_->jobs->Pulse(id).status());
  ACCEL_ASSIGN_OR_RETURN(std::vector<accel::v1::Checkpoint> checkpoints,
                         ReadCheckpoints(environment_->jobs->jobs_dir(), id));
  int64_t last = 0;
  size_t bytes = 0;
  for (accel::v1::Checkpoint& checkpoint : checkpoints) {
    ACCEL_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(checkpoint.name()));
    if (name.number >= before) continue;
    if (response->checkpoints_size() == page_size || bytes >= kPageBytes) {
      response->set_next_page_token(MakePageToken(filter, last));
      break;
    }
    last = name.number;
    bytes += checkpoint.ByteSizeLong();
    *response->add_checkpoints() = std::move(checkpoint);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* CheckpointService::ListCheckpoints(
    grpc::CallbackServerContext* context, const accel::v1::ListCheckpointsRequest* request,
    accel::v1::ListCheckpointsResponse* response) {
  return RunUnary(environment_, context, "CheckpointService.ListCheckpoints", nullptr,
                  [this, request, response] { return List(*request, response); });
}

grpc::ServerUnaryReactor* CheckpointService::GetCheckpoint(
    grpc::CallbackServerContext* context, const accel::v1::GetCheckpointRequest* request,
    accel::v1::Checkpoint* response) {
  return RunUnary(
      environment_, context, "CheckpointService.GetCheckpoint", nullptr,
      [this, request, response]() -> absl::Status {
        ACCEL_ASSIGN_OR_RETURN(const CheckpointName name, ParseCheckpointName(request->name()));
        ACCEL_RETURN_IF_ERROR(environment_->jobs->Pulse(name.job_id).status());
        ACCEL_ASSIGN_OR_RETURN(*response, FindCheckpoint(environment_->jobs->jobs_dir(), name));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* CheckpointService::CreateCheckpoint(
    grpc::CallbackServerContext* context, const accel::v1::CreateCheckpointRequest* request,
    google::protobuf::Empty*) {
  static constexpr absl::string_view kMethod = "CheckpointService.CreateCheckpoint";
  return RunUnary(
      environment_, context, kMethod, [request] { return request->parent(); },
      [this, request]() -> absl::Status {
        ACCEL_ASSIGN_OR_RETURN(const std::string id, ParseJobName(request->parent(), "parent"));
        ACCEL_ASSIGN_OR_RETURN(const RequestKey key, MakeRequestKey(kMethod, *request));
        return environment_->jobs->RequestCheckpoint(id, key);
      });
}

grpc::ServerUnaryReactor* CheckpointService::DeleteCheckpoint(
    grpc::CallbackServerContext* context, const accel::v1::DeleteCheckpointRequest*,
    google::protobuf::Empty*) {
  return RunUnary(environment_, context, "CheckpointService.DeleteCheckpoint", nullptr,
                  [] { return NotImplemented("CheckpointService.DeleteCheckpoint"); });
}

}  // namespace accel::daemon
