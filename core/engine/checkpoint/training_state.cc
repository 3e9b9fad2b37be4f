#include "core/engine/checkpoint/training_state.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kSchedulerFile[] = "scheduler.json";
constexpr char kTrainerFile[] = "trainer_state.json";

std::string RandomStatesFile(int rank) {
  return absl::StrCat("random_states_", rank, ".safetensors");
}

std::string BuffersFile(int rank) { return absl::StrCat("buffers_", rank, ".safetensors"); }

std::string HookFile(int rank) { return absl::StrCat("comm_hook_", rank, ".safetensors"); }

NamedTensors Buffers(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

NamedTensors ParametersAndBuffers(const Model& model) {
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    tensors.emplace_back(item.key(), item.value().detach());
  }
  for (auto& buffer : Buffers(model)) tensors.push_back(std::move(buffer));
  return tensors;
}

NamedTensors OnCpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU);
  return tensors;
}

std::string Describe(const at::Tensor& tensor) {
  return absl::StrCat(c10::toString(tensor.scalar_type()), " [",
                      absl::StrJoin(tensor.sizes(), ", "), "]");
}

// Copies `source` into `target` by name, all or nothing.
absl::Status CopyByName(const NamedTensors& source, const NamedTensors& target) {
  std::map<std::string, const at::Tensor*> saved;
  for (const auto& [name, tensor] : source) saved.emplace(name, &tensor);
  const auto differs = [](const std::string& name, absl::string_view saved_as,
                          absl::string_view is) {
    return absl::FailedPreconditionError(absl::StrCat("model differs from the checkpoint's: ", name,
                                                      " is ", saved_as, " in the checkpoint and ",
                                                      is, " in the job"));
  };
  for (const auto& [name, tensor] : target) {
    const auto found = saved.find(name);
    if (found == saved.end()) return differs(name, "missing", Describe(tensor));
    const at::Tensor& other = *found->second;
    if (other.sizes() != tensor.sizes() || other.scalar_type() != tensor.scalar_type()) {
      return differs(name, Describe(other), Describe(tensor));
    }
  }
  if (source.size() != target.size()) {
    for (const auto& [name, tensor] : target) saved.erase(name);
    const auto& [name, tensor] = *saved.begin();
    return differs(name, Describe(*tensor), "missing");
  }
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : target) tensor.copy_(*saved.at(name));
  return absl::OkStatus();
}

absl::Status WriteJson(const fs::path& path, const json& document) {
  return FileSystem::Real().WriteDurably(path, document.dump(2));
}

absl::StatusOr<json> ReadJson(const fs::path& path) {
  ACCEL_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().Read(path));
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::DataLossError(absl::StrCat(path.string(), ": not a JSON object"));
  }
  return document;
}

json ToJson(const TrainerState& state) {
  return {{"step", state.position.step},
          {"epoch", state.position.epoch},
          {"batches", state.position.batches},
          {"world_size", state.world_size},
          {"seed", state.seed},
          {"train_samples", state.train_samples},
          {"rounds_per_epoch", state.rounds_per_epoch},
          {"gradient_accumulation_steps", state.accumulation},
          {"optimizer", state.optimizer},
          {"bucket_cap_mb", state.bucket_cap_mb},
          {"buckets", state.buckets},
          {"comm_hook", state.comm_hook}};
}

}  // namespace

absl::Status WriteSharedState(const fs::path& folder, const Model& model,
                              const Optimizer& optimizer, const TrainerState& state) {
  ACCEL_RETURN_IF_ERROR(WriteSafetensors(folder / kModelFile, OnCpu(ParametersAndBuffers(model))));
  const auto optimizer_state = optimizer.State();
  ACCEL_RETURN_IF_ERROR(
      WriteSafetensors(folder / kOptimizerFile,
                       OnCpu(NamedTensors(optimizer_state.begin(), optimizer_state.end()))));
  ACCEL_RETURN_IF_ERROR(
      WriteJson(folder / kSchedulerFile,
                {{"step", state.schedule_step}, {"learning_rate", optimizer.learning_rate()}}));
  return WriteJson(folder / kTrainerFile, ToJson(state));
}

absl::Status WriteRankState(const fs::path& folder, int rank, const NamedTensors& random_state,
                            const Model& model, bool own_buffers) {
  ACCEL_RETURN_IF_ERROR(WriteSafetensors(folder / RandomStatesFile(rank), random_state));
  if (!own_buffers) return absl::OkStatus();
  return WriteSafetensors(folder / BuffersFile(rank), OnCpu(Buffers(model)));
}

absl::Status WriteHookState(const fs::path& folder, int rank, const NamedTensors& state) {
  return WriteSafetensors(folder / HookFile(rank), state);
}

absl::StatusOr<TrainerState> ReadTrainerState(const fs::path& folder) {
  ACCEL_ASSIGN_OR_RETURN(const json trainer, ReadJson(folder / kTrainerFile));
  ACCEL_ASSIGN_OR_RETURN(const json scheduler, ReadJson(folder / kSchedulerFile));
  try {
    TrainerState state;
    state.position = {.step = trainer.at("step").get<int64_t>(),
                      .epoch = trainer.at("epoch").get<int64_t>(),
                      .batches = trainer.at("batches").get<int64_t>()};
    state.schedule_step = scheduler.at("step").get<int64_t>();
    state.world_size = trainer.at("world_size").get<int64_t>();
    state.seed = trainer.at("seed").get<int64_t>();
    state.train_samples = trainer.at("train_samples").get<int64_t>();
    state.rounds_per_epoch = trainer.at("rounds_per_epoch").get<int64_t>();
    state.accumulation = trainer.at("gradient_accumulation_steps").get<int64_t>();
    state.optimizer = trainer.at("optimizer").get<std::string>();
    state.bucket_cap_mb = trainer.at("bucket_cap_mb").get<int64_t>();
    state.buckets = trainer.at("buckets").get<std::vector<std::vector<size_t>>>();
    state.comm_hook = trainer.value("comm_hook", "no");
    return state;
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(folder.string(), ": ", error.what()));
  }
}

absl::Status ReadModel(const fs::path& folder, Model& model) {
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors saved, ReadSafetensors(folder / kModelFile));
  return CopyByName(saved, ParametersAndBuffers(model));
}

absl::Status ReadOptimizer(const fs::path& folder, const TrainerState& state,
                           Optimizer& optimizer) {
  if (state.optimizer != optimizer.name()) {
    return absl::FailedPreconditionError(absl::StrCat("optimizer is ", state.optimizer,
                                                      " in the checkpoint and ", optimizer.name(),
                                                      " in the job"));
  }
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors saved, ReadSafetensors(folder / kOptimizerFile));
  const absl::Status loaded = optimizer.LoadState({saved.begin(), saved.end()});
  return loaded.ok() ? loaded : absl::FailedPreconditionError(loaded.message());
}

absl::Status ReadRankBuffers(const fs::path& folder, int rank, Model& model) {
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors saved, ReadSafetensors(folder / BuffersFile(rank)));
  return CopyByName(saved, Buffers(model));
}

absl::StatusOr<NamedTensors> ReadRandomState(const fs::path& folder, int rank) {
  return ReadSafetensors(folder / RandomStatesFile(rank));
}

absl::StatusOr<NamedTensors> ReadHookState(const fs::path& folder, int rank) {
  return ReadSafetensors(folder / HookFile(rank));
}

}  // namespace accel::engine
