#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/manifest.h"
#include "core/engine/checkpoint/random_state.h"
#include "core/engine/distributed/comm_hooks.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loop/session.h"

// What of a session is in a checkpoint.
namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using accel::v1::Failure;

absl::Status PreconditionFailed(absl::string_view what, int64_t checkpoint, int64_t job) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is ", checkpoint, " in the checkpoint and ", job, " in the job"));
}

}  // namespace

bool Session::keeps_own_buffers() const {
  const bool own = local_sgd_.has_value() || !accelerator().ddp_kwargs().broadcast_buffers();
  return start_.world_size() > 1 && own && !model_->buffers().empty();
}

absl::Status Session::Restore(TrainerState* restored) {
  if (start_.resume_dir().empty()) return absl::OkStatus();
  const fs::path folder = start_.resume_dir();
  ACCEL_RETURN_IF_ERROR(VerifyManifest(FileSystem::Real(), folder).status());
  ACCEL_ASSIGN_OR_RETURN(*restored, ReadTrainerState(folder));
  ACCEL_RETURN_IF_ERROR(WithCause(CheckRestored(*restored), Failure::JOB));
  ACCEL_RETURN_IF_ERROR(WithCause(ReadModel(folder, *model_), Failure::JOB));
  ACCEL_RETURN_IF_ERROR(WithCause(ReadOptimizer(folder, *restored, *optimizer_), Failure::JOB));
  ACCEL_RETURN_IF_ERROR(RestoreRank(*restored));
  early_stopping_.Restore(restored->early_stopping);
  schedule_->set_step(restored->schedule_step);
  optimizer_->set_learning_rate(schedule_->LearningRate());
  position_ = restored->position;
  return absl::OkStatus();
}

absl::Status Session::RestoreRank(const TrainerState& restored) {
  const fs::path folder = start_.resume_dir();
  // A run that begins to train apart begins with what its ranks had in common.
  if (local_sgd_.has_value() && !restored.local_sgd) return absl::OkStatus();
  if (keeps_own_buffers()) {
    ACCEL_RETURN_IF_ERROR(ReadRankBuffers(folder, start_.rank(), *model_));
  }
  if (!local_sgd_.has_value()) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(ReadLocalState(folder, start_.rank(), *model_, *optimizer_));
  local_sgd_->set_apart(restored.ranks_apart);
  return absl::OkStatus();
}

absl::Status Session::CheckRestored(const TrainerState& state) const {
  if (state.world_size != start_.world_size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "world size is ", state.world_size, " in the checkpoint and ", start_.world_size(),
        " in the job: each rank's random states and share of the data belong to one world size"));
  }
  if (state.train_samples != data_.train->size()) {
    return PreconditionFailed("number of training samples", state.train_samples,
                              data_.train->size());
  }
  if (state.rounds_per_epoch != plan_.rounds_per_epoch) {
    return PreconditionFailed("number of batches in an epoch", state.rounds_per_epoch,
                              plan_.rounds_per_epoch);
  }
  if (state.accumulation != plan_.accumulation) {
    return PreconditionFailed("gradient_accumulation_plugin.num_steps", state.accumulation,
                              plan_.accumulation);
  }
  const Position& position = state.position;
  if (position.epoch * plan_.rounds_per_epoch + position.batches < plan_.total_rounds &&
      !plan_.StepEndsAt(position.epoch, position.batches)) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint lies inside an accumulated step: epoch ", position.epoch,
                     ", batch ", position.batches, ", num_steps ", plan_.accumulation));
  }
  return absl::OkStatus();
}

absl::Status Session::RestoreRandomStates() {
  if (start_.resume_dir().empty()) return absl::OkStatus();
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors state,
                         ReadRandomState(start_.resume_dir(), start_.rank()));
  return RestoreRandomState(state, device_);
}

absl::StatusOr<Checkpointer::Result> Session::SaveCheckpoint(int64_t epoch) {
  const TrainerState state{.position = position_,
                           .schedule_step = schedule_->step(),
                           .world_size = start_.world_size(),
                           .seed = SeedOf(spec().loop()),
                           .train_samples = data_.train->size(),
                           .rounds_per_epoch = plan_.rounds_per_epoch,
                           .accumulation = plan_.accumulation,
                           .optimizer = std::string(optimizer_->name()),
                           .bucket_cap_mb = accelerator().ddp_kwargs().bucket_cap_mb(),
                           .buckets = ddp_ != nullptr ? ddp_->Buckets() : BucketIndices{},
                           .comm_hook = CommHookName(accelerator().ddp_kwargs()),
                           .early_stopping = early_stopping_.Save(),
                           .local_sgd = local_sgd_.has_value(),
                           .ranks_apart = local_sgd_.has_value() && local_sgd_->apart()};
  // The model of a checkpoint is the mean; what each rank goes on with lies beside it.
  std::optional<LocalSgd::Averaged> averaged;
  if (local_sgd_.has_value()) averaged.emplace(*local_sgd_);
  return checkpointer_->Save(position_.step, epoch, [&](const fs::path& folder) {
    return Guarded("checkpoint", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(WriteRankState(folder, start_.rank(), CaptureRandomState(device_),
                                           *model_, keeps_own_buffers()));
      if (averaged.has_value()) {
        ACCEL_RETURN_IF_ERROR(
            WriteLocalState(folder, start_.rank(), *model_, averaged->own(), *optimizer_));
      }
      if (hook_state_ != nullptr) {
        ACCEL_RETURN_IF_ERROR(WriteHookState(folder, start_.rank(), hook_state_->Save()));
      }
      if (start_.rank() != 0) return absl::OkStatus();
      return WriteSharedState(folder, *model_, *optimizer_, state);
    });
  });
}

}  // namespace accel::engine
