#ifndef ACCEL_CORE_CONFIG_TEXT_FORMAT_H_
#define ACCEL_CORE_CONFIG_TEXT_FORMAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace accel::config {

// Reads a message from YAML or JSON (YAML contains JSON), field names as in the proto. Durations
// may be numbers of seconds. INVALID_ARGUMENT with line and column for bad YAML, with the field's
// path for an unknown field or a value of the wrong type. At most 1 MiB and 64 levels.
absl::Status ParseMessage(absl::string_view text, google::protobuf::Message* message);

// The message as JSON with the proto's field names, indented by two spaces, enumerations by name.
std::string FormatJson(const google::protobuf::Message& message);

// The same as YAML.
std::string FormatYaml(const google::protobuf::Message& message);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_TEXT_FORMAT_H_
