#ifndef ACCEL_CORE_CONFIG_TEXT_FORMAT_H_
#define ACCEL_CORE_CONFIG_TEXT_FORMAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace accel::config {

// Reads a message from YAML or JSON (YAML contains JSON), field names as in the proto. Durations
// may be numbers of seconds or texts such as "600s". A plain scalar is read as its field's type, so
// that `no` is a text in a text field. Null leaves a field absent, except that it selects an empty
// message of a oneof (`mse:`). Nothing at all is an empty message.
//
// INVALID_ARGUMENT with line and column for bad YAML; as FieldViolations::ToStatus, with the place
// and what is allowed, for unknown or repeated fields, two members of a oneof and values of the
// wrong type. `message` is then empty. At most 1 MiB and 64 levels, with each alias counted as
// often as it is used.
absl::Status ParseMessage(absl::string_view text, google::protobuf::Message* message);

// The message as JSON with the proto's field names, indented by two spaces, enumerations by name.
std::string FormatJson(const google::protobuf::Message& message);

// The same as YAML.
std::string FormatYaml(const google::protobuf::Message& message);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_TEXT_FORMAT_H_
