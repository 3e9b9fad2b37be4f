#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/config/byte_size.h"
#include "core/engine/checkpoint/manifest.h"
#include "core/engine/checkpoint/random_state.h"
#include "core/engine/distributed/comm_hooks.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loop/local_sgd_section.h"
#include "core/engine/loop/session.h"

// What of a session is in a checkpoint.
namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using accel::v1::Failure;

// Validated; the default is accelerator.save_model's.
int64_t MaxShardBytes(const accel::v1::LoopSpec& loop) {
  return config::ParseByteSize(loop.has_max_shard_size() ? loop.max_shard_size() : "10GB").value();
}

// Samples that all ranks together take in one round.
int64_t SamplesPerRound(const accel::v1::JobSpec& spec,
                        const accel::v1::AcceleratorConfig& accelerator, int64_t world_size) {
  const bool split = accelerator.dataloader_config().split_batches();
  return spec.data().batch_size() * (split ? 1 : world_size);
}

absl::Status PreconditionFailed(absl::string_view what, int64_t checkpoint, int64_t job) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is ", checkpoint, " in the checkpoint and ", job, " in the job"));
}

}  // namespace

bool Session::keeps_own_buffers() const {
  return start_.world_size() > 1 && !accelerator().ddp_kwargs().broadcast_buffers() &&
         !model_->buffers().empty();
}

absl::Status Session::Restore(TrainerState* restored) {
  if (start_.resume_dir().empty()) return absl::OkStatus();
  const fs::path folder = start_.resume_dir();
  ACCEL_RETURN_IF_ERROR(VerifyManifest(FileSystem::Real(), folder).status());
  ACCEL_ASSIGN_OR_RETURN(*restored, ReadTrainerState(folder));
  ACCEL_RETURN_IF_ERROR(WithCause(CheckRestored(*restored), Failure::JOB));
  ACCEL_RETURN_IF_ERROR(WithCause(ReadModel(folder, *model_), Failure::JOB));
  ACCEL_RETURN_IF_ERROR(WithCause(ReadOptimizer(folder, *restored, *optimizer_), Failure::JOB));
  if (keeps_own_buffers()) {
    ACCEL_RETURN_IF_ERROR(ReadRankBuffers(folder, start_.rank(), *model_));
  }
  schedule_->set_step(restored->schedule_step);
  position_ = restored->position;
  restored_world_size_ = restored->world_size;
  return absl::OkStatus();
}

absl::Status Session::CheckSamePosition() {
  if (start_.local_world_size() == start_.world_size()) return absl::OkStatus();
  const int64_t least = communicator_->Min(position_.step);
  const int64_t most = communicator_->Max(position_.step);
  if (least == most) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("resume_from: this machine's checkpoint is at step ", position_.step,
                   ", those of all machines are at steps ", least, " to ", most));
}

absl::Status Session::CheckRestored(const TrainerState& state) const {
  const Position& position = state.position;
  const bool inside_epoch = position.batches > 0 && !position.epoch_complete;
  if (state.world_size != start_.world_size() && (inside_epoch || keeps_own_buffers())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "world size is ", state.world_size, " in the checkpoint and ", start_.world_size(),
        " in the job: ",
        inside_epoch
            ? absl::StrCat("the rest of epoch ", position.epoch, ", from batch ", position.batches,
                           " on, is dealt out to the ranks it began "
                           "with; only between epochs another number can go on")
            : "each rank has buffers of its own with broadcast_buffers false"));
  }
  if (state.train_samples != data_.train().size()) {
    return PreconditionFailed("number of training samples", state.train_samples,
                              data_.train().size());
  }
  if (state.world_size == start_.world_size() && state.rounds_per_epoch != plan_.rounds_per_epoch) {
    return PreconditionFailed("number of batches in an epoch", state.rounds_per_epoch,
                              plan_.rounds_per_epoch);
  }
  const int64_t per_round = SamplesPerRound(spec(), accelerator(), start_.world_size());
  if (inside_epoch && state.samples_per_round != 0 && state.samples_per_round != per_round) {
    return PreconditionFailed("number of samples in a batch of all ranks", state.samples_per_round,
                              per_round);
  }
  if (state.accumulation != plan_.accumulation) {
    return PreconditionFailed("gradient_accumulation_plugin.num_steps", state.accumulation,
                              plan_.accumulation);
  }
  if (position.micro_batches > 0 && !plan_.EndsAt(position)) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint lies inside an accumulated step: epoch ", position.epoch,
                     ", batch ", position.batches, ", num_steps ", plan_.accumulation));
  }
  return absl::OkStatus();
}

absl::Status Session::RestoreRandomStates() {
  if (start_.resume_dir().empty()) return absl::OkStatus();
  // Ranks that the checkpoint does not know go on as one that it knows: all began alike.
  const int rank = start_.rank() % static_cast<int>(restored_world_size_);
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors state, ReadRandomState(start_.resume_dir(), rank));
  return RestoreRandomState(state, device_);
}

absl::Status Session::AddLoopSections() {
  ACCEL_RETURN_IF_ERROR(AddSection(early_stopping_.Section()));
  if (!local_sgd_.has_value()) return absl::OkStatus();
  return AddSection(LocalSgdSection(*local_sgd_, averaged_, *model_, *optimizer_));
}

absl::Status Session::AddSection(StateSection section) {
  sections_.push_back(std::move(section));
  if (start_.resume_dir().empty()) return absl::OkStatus();
  if (sections_.back().per_rank && restored_world_size_ != start_.world_size()) {
    return WithCause(PreconditionFailed(
                         absl::StrCat("world size, to which ", sections_.back().name, " belongs,"),
                         restored_world_size_, start_.world_size()),
                     Failure::JOB);
  }
  return WithCause(RestoreSection(start_.resume_dir(), start_.rank(), sections_.back()),
                   Failure::STORAGE);
}

absl::StatusOr<Checkpointer::Result> Session::SaveCheckpoint(int64_t epoch) {
  const TrainerState state{
      .position = position_,
      .schedule_step = schedule_->step(),
      .world_size = start_.world_size(),
      .seed = SeedOf(spec().loop()),
      .train_samples = data_.train().size(),
      .rounds_per_epoch = plan_.rounds_per_epoch,
      .samples_per_round = SamplesPerRound(spec(), accelerator(), start_.world_size()),
      .accumulation = plan_.accumulation,
      .optimizer = std::string(optimizer_->name()),
      .bucket_cap_mb = accelerator().ddp_kwargs().bucket_cap_mb(),
      .buckets = ddp_ != nullptr ? ddp_->Buckets() : BucketIndices{},
      .comm_hook = CommHookName(accelerator().ddp_kwargs())};
  // The model of a checkpoint is the ranks' mean; what each goes on with lies beside it.
  if (local_sgd_.has_value()) averaged_.emplace(*local_sgd_);
  const bool on_each = accelerator().project_config().save_on_each_node();
  const bool shared = on_each ? communicator_->is_local_main() : start_.rank() == 0;
  auto saved = checkpointer_->Save(position_.step, epoch, [&](const fs::path& folder) {
    return Guarded("checkpoint", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(WriteRankState(folder, start_.rank(), CaptureRandomState(device_),
                                           *model_, keeps_own_buffers()));
      if (hook_state_ != nullptr) {
        ACCEL_RETURN_IF_ERROR(WriteHookState(folder, start_.rank(), hook_state_->Save()));
      }
      for (const StateSection& section : sections_) {
        if (!section.per_rank && !shared) continue;
        ACCEL_RETURN_IF_ERROR(WriteSection(folder, start_.rank(), section));
      }
      if (!shared) return absl::OkStatus();
      return WriteSharedState(folder, *model_, *optimizer_, state, MaxShardBytes(spec().loop()));
    });
  });
  averaged_.reset();
  return saved;
}

}  // namespace accel::engine
