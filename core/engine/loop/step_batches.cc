#include "core/engine/loop/step_batches.h"

#include <ATen/ops/tensor.h>

#include <utility>

#include "core/engine/loss.h"

namespace accel::engine {

bool AveragesOverItems(const Session& session) {
  return session.spec().loss().averaging() == "items";
}

void StepBatches::StartEpoch() {
  ahead_.clear();
  const Position& position = session_.position();
  session_.train_loader().StartEpoch(position.epoch, position.batches);
}

Batch StepBatches::Next() {
  const Position& position = session_.position();
  if (session_.plan().StepEndsAt(position.epoch, position.batches)) BeginStep();
  Batch batch;
  if (ahead_.empty()) {
    session_.train_loader().Next(&batch);
  } else {
    batch = std::move(ahead_.front());
    ahead_.pop_front();
  }
  return batch;
}

void StepBatches::BeginStep() {
  step_ = {.batches = session_.plan().BatchesOfStepAt(session_.position().batches)};
  if (AveragesOverItems(session_)) ReadAhead();
}

void StepBatches::ReadAhead() {
  for (int64_t i = 0; i < step_.batches; ++i) {
    Batch batch;
    session_.train_loader().Next(&batch);
    step_.items += CountItems(session_.spec().loss(), batch.targets);
    step_.samples += batch.samples;
    ahead_.push_back(std::move(batch));
  }
  at::Tensor counts = at::tensor({step_.items, step_.samples},
                                 at::TensorOptions(at::kLong).device(session_.device()));
  session_.communicator().AllReduceSum(counts);
  const at::Tensor totals = counts.cpu();
  step_.items = totals[0].item<int64_t>();
  step_.samples = totals[1].item<int64_t>();
}

}  // namespace accel::engine
