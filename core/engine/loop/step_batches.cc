#include "core/engine/loop/step_batches.h"

#include <ATen/ops/tensor.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loss.h"

namespace accel::engine {
namespace {

// A step that goes on in the next epoch has as many batches as any other.
bool MayBeShort(const LoopPlan& plan) { return plan.accumulation > 1 && plan.sync_with_dataloader; }

}  // namespace

bool AveragesOverItems(const Session& session) {
  return session.spec().loss().averaging() == "items";
}

StepBatches::StepBatches(Session& session)
    : session_(session),
      by_items_(AveragesOverItems(session)),
      reads_ahead_(by_items_ || (session.spec().loss().averaging() == "micro_batches" &&
                                 MayBeShort(session.plan()))) {}

absl::Status StepBatches::StartEpoch() {
  ahead_.clear();
  const Position& position = session_.position();
  return session_.train_loader().StartEpoch(position.epoch, position.batches);
}

absl::StatusOr<Batch> StepBatches::Next() {
  if (session_.position().micro_batches == 0) ACCEL_RETURN_IF_ERROR(BeginStep());
  if (ahead_.empty()) return Read(session_.position().batches);
  Batch batch = std::move(ahead_.front());
  ahead_.pop_front();
  return batch;
}

absl::Status StepBatches::BeginStep() {
  step_ = {.batches = session_.plan().accumulation};
  if (reads_ahead_) ACCEL_RETURN_IF_ERROR(ReadAhead());
  if (by_items_) CountItemsOfAllRanks();
  return absl::OkStatus();
}

absl::Status StepBatches::ReadAhead() {
  do {
    const int64_t number = session_.position().batches + static_cast<int64_t>(ahead_.size());
    ACCEL_ASSIGN_OR_RETURN(Batch batch, Read(number));
    ahead_.push_back(std::move(batch));
  } while (static_cast<int64_t>(ahead_.size()) < step_.batches && !ahead_.back().last);
  step_.batches = static_cast<int64_t>(ahead_.size());
  return absl::OkStatus();
}

void StepBatches::CountItemsOfAllRanks() {
  for (const Batch& batch : ahead_) {
    step_.items += CountItems(session_.spec().loss(), batch.targets);
    step_.samples += batch.samples;
  }
  at::Tensor counts = at::tensor({step_.items, step_.samples},
                                 at::TensorOptions(at::kLong).device(session_.device()));
  session_.communicator().AllReduceSum(counts);
  const at::Tensor totals = counts.cpu();
  step_.items = totals[0].item<int64_t>();
  step_.samples = totals[1].item<int64_t>();
}

absl::StatusOr<Batch> StepBatches::Read(int64_t batch) {
  ACCEL_ASSIGN_OR_RETURN(std::optional<Batch> next, session_.train_loader().Next());
  if (next.has_value()) return *std::move(next);
  return WithCause(
      absl::InvalidArgumentError(absl::StrCat("the data ends before batch ", batch, " of epoch ",
                                              session_.position().epoch,
                                              ": too few samples for a batch of every rank, "
                                              "or the file is another one than before")),
      accel::v1::Failure::DATA);
}

}  // namespace accel::engine
