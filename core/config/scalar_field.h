#ifndef ACCEL_CORE_CONFIG_SCALAR_FIELD_H_
#define ACCEL_CORE_CONFIG_SCALAR_FIELD_H_

#include <yaml-cpp/yaml.h>

#include <string>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"

namespace accel::config {

// Reads seconds as a number, or a text with a unit such as 600s, 10m or 1h30m. False, with
// `duration` untouched, for any other text and for what a Duration cannot hold.
bool ParseDuration(const std::string& text, google::protobuf::Duration* duration);

// What a field that is no message may hold, for an error: "true, false", a range, names.
std::string AllowedScalars(const google::protobuf::FieldDescriptor& field);

// Sets the field of `message` from a scalar without a tag, or adds to it where it is repeated.
// False, with `message` untouched, when the text is no value of the field's type.
bool SetScalar(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
               google::protobuf::Message* message);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_SCALAR_FIELD_H_
