#ifndef ACCEL_CORE_ENGINE_LOOP_STEP_BATCHES_H_
#define ACCEL_CORE_ENGINE_LOOP_STEP_BATCHES_H_

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/loop/session.h"

namespace accel::engine {

// What is known of an optimizer step before it is trained.
struct StepSize {
  // Micro-batches of each rank; with loss.averaging "num_steps" as if the step were full.
  int64_t batches = 1;
  // Items that count, and samples, of all its micro-batches and ranks. Only with loss.averaging
  // "items".
  int64_t items = 0;
  int64_t samples = 0;
};

// Whether `session` divides a step's loss by the items of all ranks.
bool AveragesOverItems(const Session& session);

// A rank's training batches, optimizer step by optimizer step. Where the loss is divided by the
// items or the micro-batches of a step, all batches of it are read before its first one is given:
// of a stream only they tell how many there are.
class StepBatches {
 public:
  // `session` must outlive this.
  explicit StepBatches(Session& session);

  // Begins or takes up the epoch at the session's position.
  absl::Status StartEpoch();

  // The batch at the session's position, which is in the epoch. Every rank calls it as often as the
  // others: the items of a step are counted by a collective.
  absl::StatusOr<Batch> Next();

  // The step of the batch that Next gave last.
  const StepSize& step() const { return step_; }

 private:
  absl::Status BeginStep();
  absl::Status ReadAhead();
  void CountItemsOfAllRanks();
  // The loader's next batch, number `batch` of the epoch.
  absl::StatusOr<Batch> Read(int64_t batch);

  Session& session_;
  const bool by_items_;
  const bool reads_ahead_;
  StepSize step_;
  std::deque<Batch> ahead_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_STEP_BATCHES_H_
