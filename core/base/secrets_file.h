#ifndef ACCEL_CORE_BASE_SECRETS_FILE_H_
#define ACCEL_CORE_BASE_SECRETS_FILE_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace accel {

// Secrets of the node by name, from a file of lines `NAME=value`; empty lines and lines that start
// with "#" are skipped, quotes belong to the value. PERMISSION_DENIED unless the file is a regular
// one of this user or root that nobody else may read or write; INVALID_ARGUMENT names the line that
// is wrong, never its contents.
absl::StatusOr<std::map<std::string, std::string>> ReadSecretsFile(
    const std::filesystem::path& path);

}  // namespace accel

#endif  // ACCEL_CORE_BASE_SECRETS_FILE_H_
