#include "server/daemon/grpc_status.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace accel::daemon {

std::string ReasonOf(const absl::Status& status) {
  if (status.ok()) return "";
  if (const auto payload = status.GetPayload(kErrorInfoTypeUrl)) {
    google::rpc::ErrorInfo info;
    if (info.ParseFromString(std::string(*payload)) && !info.reason().empty()) return info.reason();
  }
  return absl::StatusCodeToString(status.code());
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status complete =
      status.GetPayload(kErrorInfoTypeUrl) ? status : WithErrorInfo(status, ReasonOf(status));
  google::rpc::Status details;
  details.set_code(complete.raw_code());
  details.set_message(std::string(complete.message()));
  complete.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any* const any = details.add_details();
    any->set_type_url(std::string(type_url));
    any->set_value(std::string(payload));
  });
  return grpc::Status(static_cast<grpc::StatusCode>(complete.raw_code()),
                      std::string(complete.message()), details.SerializeAsString());
}

absl::Status JobNotFound(absl::string_view job_id) {
  return WithErrorInfo(absl::NotFoundError(absl::StrCat("no job \"", job_id, "\" on this node")),
                       "JOB_NOT_FOUND", {{"job", std::string(job_id)}});
}

absl::Status WrongJobState(absl::string_view job_id, absl::string_view state,
                           absl::string_view reason, absl::string_view what) {
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat("job \"", job_id, "\" is ", state, ": ", what)),
      reason, {{"job", std::string(job_id)}, {"state", std::string(state)}});
}

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  FieldViolations violations;
  violations.Add(field, description);
  return violations.ToStatus();
}

absl::Status Draining(int64_t sequence) {
  if (sequence < 0) {
    return WithErrorInfo(absl::UnavailableError("the node is shutting down"), "NODE_DRAINING");
  }
  return WithErrorInfo(
      absl::UnavailableError(absl::StrCat("the node is shutting down; go on after sequence ",
                                          sequence, " when it is back")),
      "NODE_DRAINING", {{"sequence", absl::StrCat(sequence)}});
}

}  // namespace accel::daemon
