#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_TRAINING_STATE_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_TRAINING_STATE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/loop/position.h"
#include "core/engine/model/model.h"
#include "core/engine/optim/optimizer.h"

namespace accel::engine {

// What a checkpoint says besides tensors.
struct TrainerState {
  Position position;
  int64_t schedule_step = 0;
  int64_t world_size = 1;
  int64_t seed = 0;
  // What an epoch consists of; 0 where only its end tells.
  int64_t train_samples = 0;
  int64_t rounds_per_epoch = 0;
  // Samples of all ranks' batches in a round; 0 where the checkpoint does not say.
  int64_t samples_per_round = 0;
  // Batches of an optimizer step.
  int64_t accumulation = 1;
  // Optimizer::name().
  std::string optimizer;
  // The buckets that gradients were reduced in, and the cap that they were made for: with more than
  // two ranks the order of additions depends on them.
  int64_t bucket_cap_mb = 0;
  std::vector<std::vector<size_t>> buckets;
  // CommHookName().
  std::string comm_hook;
};

// The files of a checkpoint's folder, named as Accelerate's save_state names what it writes:
//   model.safetensors (or its shards, see WriteModelFiles), optimizer.safetensors, scheduler.json,
//   trainer_state.json                                                            by rank 0
//   random_states_<rank>.safetensors                                              by every rank
//   buffers_<rank>.safetensors      by every rank, where each keeps buffers of its own
//   comm_hook_<rank>.safetensors    by every rank, where the communication hook remembers something
// those of each StateSection, and the manifest. Errors name the file.

// Rank 0's files.
absl::Status WriteSharedState(const std::filesystem::path& folder, const Model& model,
                              const Optimizer& optimizer, const TrainerState& state,
                              int64_t max_shard_bytes);

// The files of `rank`; with `own_buffers` its buffers too.
absl::Status WriteRankState(const std::filesystem::path& folder, int rank,
                            const NamedTensors& random_state, const Model& model, bool own_buffers);

// What `rank`'s communication hook remembers.
absl::Status WriteHookState(const std::filesystem::path& folder, int rank,
                            const NamedTensors& state);

absl::StatusOr<TrainerState> ReadTrainerState(const std::filesystem::path& folder);

// Copies the checkpoint's tensors into the model. FAILED_PRECONDITION lists the tensors that the
// model and the checkpoint do not share; the model is then as it was.
absl::Status ReadModel(const std::filesystem::path& folder, Model& model);

// FAILED_PRECONDITION when the state is another optimizer's.
absl::Status ReadOptimizer(const std::filesystem::path& folder, const TrainerState& state,
                           Optimizer& optimizer);

// Copies `rank`'s own buffers into the model.
absl::Status ReadRankBuffers(const std::filesystem::path& folder, int rank, Model& model);

absl::StatusOr<NamedTensors> ReadRandomState(const std::filesystem::path& folder, int rank);

absl::StatusOr<NamedTensors> ReadHookState(const std::filesystem::path& folder, int rank);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_TRAINING_STATE_H_
