#include "client/call_status.h"

#include "absl/strings/cord.h"
#include "core/base/errors.h"
#include "google/rpc/status.pb.h"

namespace accel::client {
namespace {

template <typename Detail>
std::optional<Detail> PayloadOf(const absl::Status& status, absl::string_view type_url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type_url);
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

}  // namespace

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

std::optional<google::rpc::ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  return PayloadOf<google::rpc::ErrorInfo>(status, kErrorInfoTypeUrl);
}

std::vector<std::pair<std::string, std::string>> ViolationsOf(const absl::Status& status) {
  std::vector<std::pair<std::string, std::string>> violations;
  const auto bad_request = PayloadOf<google::rpc::BadRequest>(status, kBadRequestTypeUrl);
  if (!bad_request.has_value()) return violations;
  for (const auto& violation : bad_request->field_violations()) {
    violations.emplace_back(violation.field(), violation.description());
  }
  return violations;
}

}  // namespace accel::client
