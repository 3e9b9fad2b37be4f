#ifndef ACCEL_CORE_BASE_ERRORS_H_
#define ACCEL_CORE_BASE_ERRORS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace accel {

// Domain of every google.rpc.ErrorInfo of this project.
inline constexpr absl::string_view kErrorDomain = "accel.v1";

// Attaches a google.rpc.ErrorInfo to a status that is not OK, as a payload under its type URL.
// `reason` is UPPER_SNAKE_CASE, at most 63 characters. Every value in the message belongs into
// `metadata` too, so that a program need not parse the message.
absl::Status WithErrorInfo(absl::Status status, absl::string_view reason,
                           const absl::flat_hash_map<std::string, std::string>& metadata = {});

// UNIMPLEMENTED with ErrorInfo NOT_IMPLEMENTED and the feature's name in the metadata `feature`.
// `feature` is the path of a field (`accelerator.mixed_precision="bf16"`) or a method's name.
absl::Status NotImplemented(absl::string_view feature);

// Collects what is wrong with a message, so that a caller learns all of it at once.
class FieldViolations {
 public:
  // `field` is the path from the request's own message (`loop.num_epochs`,
  // `tracking.trackers[1].wandb.mode`); `description` says what came and what is allowed.
  void Add(absl::string_view field, absl::string_view description);

  // A feature that is known and not implemented, reported only where nothing is invalid.
  void AddNotImplemented(absl::string_view feature);

  bool empty() const { return violations_.empty() && not_implemented_.empty(); }

  // OK when nothing was added. INVALID_ARGUMENT with google.rpc.BadRequest (one FieldViolation
  // each) and ErrorInfo INVALID_FIELDS when a field is invalid, else the first NotImplemented().
  absl::Status ToStatus() const;

 private:
  std::vector<std::pair<std::string, std::string>> violations_;
  std::vector<std::string> not_implemented_;
};

// Type URLs of the payloads, equal to those in a google.rpc.Status's details.
inline constexpr absl::string_view kErrorInfoTypeUrl = "type.googleapis.com/google.rpc.ErrorInfo";
inline constexpr absl::string_view kBadRequestTypeUrl = "type.googleapis.com/google.rpc.BadRequest";

}  // namespace accel

#endif  // ACCEL_CORE_BASE_ERRORS_H_
