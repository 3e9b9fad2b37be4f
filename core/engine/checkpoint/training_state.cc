#include "core/engine/checkpoint/training_state.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/json_file.h"
#include "core/engine/checkpoint/model_files.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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

NamedTensors OnCpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU);
  return tensors;
}

json ToJson(const TrainerState& state) {
  return {{"step", state.position.step},
          {"epoch", state.position.epoch},
          {"batches", state.position.batches},
          {"epoch_complete", state.position.epoch_complete},
          {"micro_batches", state.position.micro_batches},
          {"world_size", state.world_size},
          {"seed", state.seed},
          {"train_samples", state.train_samples},
          {"rounds_per_epoch", state.rounds_per_epoch},
          {"samples_per_round", state.samples_per_round},
          {"gradient_accumulation_steps", state.accumulation},
          {"optimizer", state.optimizer},
          {"bucket_cap_mb", state.bucket_cap_mb},
          {"buckets", state.buckets},
          {"comm_hook", state.comm_hook}};
}

}  // namespace

absl::Status WriteSharedState(const fs::path& folder, const Model& model,
                              const Optimizer& optimizer, const TrainerState& state,
                              int64_t max_shard_bytes) {
  ACCEL_RETURN_IF_ERROR(WriteModelFiles(folder, StateDict(model), max_shard_bytes));
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
    const int64_t rounds = trainer.at("rounds_per_epoch").get<int64_t>();
    // Older checkpoints do not say these; they are of data whose length was known.
    state.position.epoch_complete =
        trainer.value("epoch_complete", state.position.batches == rounds);
    state.position.micro_batches = trainer.value("micro_batches", int64_t{0});
    state.schedule_step = scheduler.at("step").get<int64_t>();
    state.world_size = trainer.at("world_size").get<int64_t>();
    state.seed = trainer.at("seed").get<int64_t>();
    state.train_samples = trainer.at("train_samples").get<int64_t>();
    state.rounds_per_epoch = rounds;
    state.samples_per_round = trainer.value("samples_per_round", int64_t{0});
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
  return LoadModelFolder(folder, StateDict(model));
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
  const fs::path path = folder / BuffersFile(rank);
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors saved, ReadSafetensors(path));
  return CopyByName(saved, path.string(), Buffers(model));
}

absl::StatusOr<NamedTensors> ReadRandomState(const fs::path& folder, int rank) {
  return ReadSafetensors(folder / RandomStatesFile(rank));
}

absl::StatusOr<NamedTensors> ReadHookState(const fs::path& folder, int rank) {
  return ReadSafetensors(folder / HookFile(rank));
}

}  // namespace accel::engine
