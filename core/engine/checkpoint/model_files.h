#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_MODEL_FILES_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_MODEL_FILES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/data/data_roots.h"
#include "core/engine/model/model.h"

namespace accel::engine {

// Parameters and buffers in the order of PyTorch's Module.state_dict(); they share the model's
// memory.
NamedTensors StateDict(const Model& model);

// Writes tensors as accelerator.save_model does: model.safetensors, or where they are larger than
// `max_shard_bytes` model-<k>-of-<n>.safetensors with model.safetensors.index.json, cut as
// huggingface_hub's split_torch_state_dict_into_shards cuts. Does not sync the tensors' files.
absl::Status WriteModelFiles(const std::filesystem::path& folder, const NamedTensors& tensors,
                             int64_t max_shard_bytes);

// How tensors of another type than the model's are taken.
enum class TypeRule {
  kSame,           // not at all
  kConvertFloats,  // floating point of any width becomes the model's type
};

// Opens one file of a model by its name in the model's folder; NOT_FOUND where there is none.
using OpenModelFile = std::function<absl::StatusOr<Fd>(const std::string& name)>;

// Copies the tensors of model.safetensors, or of the shards in model.safetensors.index.json, into
// `target` by name. FAILED_PRECONDITION lists what is missing, unexpected or of another shape or
// type; `target` is then as it was. `where` names the folder in messages.
absl::Status LoadModelFiles(const OpenModelFile& open, absl::string_view where, TypeRule rule,
                            const NamedTensors& target);

// The same from a folder of this machine.
absl::Status LoadModelFolder(const std::filesystem::path& folder, const NamedTensors& target);

// The same for accel.v1.ModelSpec.init_from: a safetensors file or a folder below a data root.
absl::Status LoadInitialWeights(absl::string_view name, const DataRoots& roots,
                                const NamedTensors& target);

// Copies `source` into `target` by name; errors as LoadModelFiles.
absl::Status CopyByName(const NamedTensors& source, absl::string_view where,
                        const NamedTensors& target);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_MODEL_FILES_H_
