#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_JSON_FILE_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_JSON_FILE_H_

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace accel::engine {

// Writes a document durably (see FileSystem::WriteDurably).
absl::Status WriteJson(const std::filesystem::path& path, const nlohmann::json& document);

// A file that holds one JSON object; DATA_LOSS where it does not.
absl::StatusOr<nlohmann::json> ReadJson(const std::filesystem::path& path);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_JSON_FILE_H_
