#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
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

// accelerator.save_model's default.
constexpr int64_t kMaxShardBytes = 10'000'000'000;

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
  for (const StateSection& section : Sections(/*averaged=*/nullptr)) {
    ACCEL_RETURN_IF_ERROR(RestoreSection(folder, start_.rank(), section));
  }
  schedule_->set_step(restored->schedule_step);
  optimizer_->set_learning_rate(schedule_->LearningRate());
  position_ = restored->position;
  return absl::OkStatus();
}

std::vector<StateSection> Session::Sections(const LocalSgd::Averaged* averaged) {
  std::vector<StateSection> sections{early_stopping_.Section()};
  if (local_sgd_.has_value()) {
    sections.push_back(LocalSgdSection(*local_sgd_, averaged, *model_, *optimizer_));
  }
  return sections;
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
                           .comm_hook = CommHookName(accelerator().ddp_kwargs())};
  // The model of a checkpoint is the ranks' mean; what each goes on with lies beside it.
  std::optional<LocalSgd::Averaged> averaged;
  if (local_sgd_.has_value()) averaged.emplace(*local_sgd_);
  return checkpointer_->Save(position_.step, epoch, [&](const fs::path& folder) {
    return Guarded("checkpoint", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(WriteRankState(folder, start_.rank(), CaptureRandomState(device_),
                                           *model_, keeps_own_buffers()));
      for (const StateSection& section : Sections(averaged.has_value() ? &*averaged : nullptr)) {
        ACCEL_RETURN_IF_ERROR(WriteSection(folder, start_.rank(), section));
      }
      if (hook_state_ != nullptr) {
        ACCEL_RETURN_IF_ERROR(WriteHookState(folder, start_.rank(), hook_state_->Save()));
      }
      if (start_.rank() != 0) return absl::OkStatus();
      return WriteSharedState(folder, *model_, *optimizer_, state, kMaxShardBytes);
    });
  });
}

}  // namespace accel::engine
