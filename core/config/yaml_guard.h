#ifndef ACCEL_CORE_CONFIG_YAML_GUARD_H_
#define ACCEL_CORE_CONFIG_YAML_GUARD_H_

#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::config {

// `line 3, column 1`.
std::string At(const YAML::Mark& mark);

// Reads the one document of a text that may come from anyone; null where there is none.
// INVALID_ARGUMENT with the place for bad YAML, a second document, text that is no UTF-8, control
// characters, more than 1 MiB (with each alias counted as often as it is used) or 64 levels.
absl::StatusOr<YAML::Node> LoadUntrustedYaml(absl::string_view text);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_YAML_GUARD_H_
