#include "core/engine/checkpoint/state_section.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/json_file.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;

fs::path FileOf(const fs::path& folder, int rank, const StateSection& section,
                absl::string_view ending) {
  const std::string suffix = section.per_rank ? absl::StrCat("_", rank) : "";
  return folder / absl::StrCat(section.name, suffix, ending);
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

absl::Status WriteSection(const fs::path& folder, int rank, const StateSection& section) {
  ACCEL_ASSIGN_OR_RETURN(SectionState state, section.save());
  if (!state.values.empty()) {
    ACCEL_RETURN_IF_ERROR(WriteJson(FileOf(folder, rank, section, ".json"), state.values));
  }
  if (state.tensors.empty()) return absl::OkStatus();
  for (auto& [name, tensor] : state.tensors) tensor = tensor.to(at::kCPU);
  return WriteSafetensors(FileOf(folder, rank, section, ".safetensors"), state.tensors);
}

absl::Status RestoreSection(const fs::path& folder, int rank, const StateSection& section) {
  const fs::path values = FileOf(folder, rank, section, ".json");
  const fs::path tensors = FileOf(folder, rank, section, ".safetensors");
  const bool has_values = Exists(values);
  const bool has_tensors = Exists(tensors);
  if (!has_values && !has_tensors) return absl::OkStatus();
  SectionState state;
  if (has_values) {
    ACCEL_ASSIGN_OR_RETURN(state.values, ReadJson(values));
  }
  if (has_tensors) {
    ACCEL_ASSIGN_OR_RETURN(state.tensors, ReadSafetensors(tensors));
  }
  try {
    return section.restore(state);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(values.string(), ": ", error.what()));
  }
}

}  // namespace accel::engine
