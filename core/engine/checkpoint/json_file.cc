#include "core/engine/checkpoint/json_file.h"

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::engine {

absl::Status WriteJson(const std::filesystem::path& path, const nlohmann::json& document) {
  return FileSystem::Real().WriteDurably(path, document.dump(2));
}

absl::StatusOr<nlohmann::json> ReadJson(const std::filesystem::path& path) {
  ACCEL_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().Read(path));
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::DataLossError(absl::StrCat(path.string(), ": not a JSON object"));
  }
  return document;
}

}  // namespace accel::engine
