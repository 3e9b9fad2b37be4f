#ifndef ACCEL_SERVER_SUPERVISOR_STEP_AGGREGATOR_H_
#define ACCEL_SERVER_SUPERVISOR_STEP_AGGREGATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/telemetry.pb.h"

namespace accel::supervisor {

// Merges what the ranks report of each training step into one row for all of them.
class StepAggregator {
 public:
  explicit StepAggregator(int world_size) : world_size_(world_size) {}

  // Takes one rank's report. Once all ranks have reported the step: its row, without rank, sequence
  // and attempt. The time is that of the last rank to end the step; train/loss is the mean over
  // ranks weighted by samples, perf/step_seconds the longest, perf/samples_per_second all samples
  // over the longest time; the others are the same on all ranks and rank 0's are taken.
  std::optional<accel::v1::MetricRecord> Add(int rank,
                                             const accel::internal::v1::StepReport& report);

  // Whether some ranks have not reported yet a step up to `step` that others have.
  bool WaitsFor(int64_t step) const { return !pending_.empty() && pending_.begin()->first <= step; }

 private:
  const int world_size_;
  // By step, then by rank.
  std::map<int64_t, std::map<int, accel::internal::v1::StepReport>> pending_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_STEP_AGGREGATOR_H_
