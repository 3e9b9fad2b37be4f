#ifndef ACCEL_SERVER_WORKER_CUT_GATE_H_
#define ACCEL_SERVER_WORKER_CUT_GATE_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/engine/loop/training.h"

namespace accel::worker {

// A rank's end of the two-phase cut of worker.proto: the training thread passes BeginTick, the
// control thread brings the supervisor's messages.
class CutGate final : public engine::TickGate {
 public:
  // PrepareCut: no tick begins until Apply brings the cut of this number. Returns the ticks begun.
  int64_t Prepare(int64_t cut_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Cut: acts before the tick after `cut.tick()`. INVALID_ARGUMENT for an action that does not
  // exist, or a tick that is behind, which no cut can be that was prepared.
  absl::Status Apply(const accel::internal::v1::Cut& cut) ABSL_LOCKS_EXCLUDED(mutex_);

  Decision BeginTick() override ABSL_LOCKS_EXCLUDED(mutex_);

  bool StopRequested() const override ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the job is to stop before its first tick.
  bool StoppedBeforeFirstTick() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Agreed() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return prepared_.empty(); }
  bool StopsHere() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  int64_t ticks_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  // Numbers of cuts whose second half has not come.
  std::set<int64_t> prepared_ ABSL_GUARDED_BY(mutex_);
  std::vector<accel::internal::v1::Cut> cuts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace accel::worker

#endif  // ACCEL_SERVER_WORKER_CUT_GATE_H_
