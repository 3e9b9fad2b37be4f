#include "core/base/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/rpc/error_details.pb.h"

namespace accel {

absl::Status WithErrorInfo(absl::Status status, absl::string_view reason,
                           const absl::flat_hash_map<std::string, std::string>& metadata) {
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status NotImplemented(absl::string_view feature) {
  return WithErrorInfo(
      absl::UnimplementedError(absl::StrCat(feature, " is not implemented by this node")),
      "NOT_IMPLEMENTED", {{"feature", std::string(feature)}});
}

void FieldViolations::Add(absl::string_view field, absl::string_view description) {
  violations_.emplace_back(field, description);
}

void FieldViolations::AddNotImplemented(absl::string_view feature) {
  not_implemented_.emplace_back(feature);
}

absl::Status FieldViolations::ToStatus() const {
  if (empty()) return absl::OkStatus();
  if (violations_.empty()) return NotImplemented(not_implemented_.front());
  google::rpc::BadRequest bad_request;
  absl::flat_hash_map<std::string, std::string> metadata;
  for (const auto& [field, description] : violations_) {
    google::rpc::BadRequest::FieldViolation* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
    metadata[field] = description;
  }
  absl::Status status = absl::InvalidArgumentError(absl::StrJoin(
      violations_, "; ", [](std::string* out, const std::pair<std::string, std::string>& v) {
        absl::StrAppend(out, v.first, ": ", v.second);
      }));
  status.SetPayload(kBadRequestTypeUrl, absl::Cord(bad_request.SerializeAsString()));
  return WithErrorInfo(std::move(status), "INVALID_FIELDS", metadata);
}

}  // namespace accel
