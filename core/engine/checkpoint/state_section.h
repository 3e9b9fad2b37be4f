#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_STATE_SECTION_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_STATE_SECTION_H_

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/checkpoint/safetensors.h"

namespace accel::engine {

// What one part of training keeps in a checkpoint.
struct SectionState {
  // A JSON object; empty: no file. JSON has no NaN and no infinity: leave such a value out.
  nlohmann::json values = nlohmann::json::object();
  // On any device; empty: no file.
  NamedTensors tensors;
};

// A part of training whose state lies in checkpoint files of its own: `<name>.json` and
// `<name>.safetensors`, or with `per_rank` `<name>_<rank>.json` and `<name>_<rank>.safetensors`.
struct StateSection {
  // Letters, digits and "_"; names what Accelerate's save_state names, where it has such a file.
  std::string name;
  // Whether every rank has a state of its own. Otherwise who saves the model writes it, and all
  // ranks read it.
  bool per_rank = false;
  std::function<absl::StatusOr<SectionState>()> save;
  // Takes what `save` gave, tensors on the CPU. FAILED_PRECONDITION where it does not fit.
  std::function<absl::Status(const SectionState& state)> restore;
};

// Writes the files of a section of `rank`.
absl::Status WriteSection(const std::filesystem::path& folder, int rank,
                          const StateSection& section);

// Restores a section; one without files (of a checkpoint that is older than the section, or of a
// job without it) stays as it is. DATA_LOSS for a file that cannot be understood.
absl::Status RestoreSection(const std::filesystem::path& folder, int rank,
                            const StateSection& section);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_STATE_SECTION_H_
