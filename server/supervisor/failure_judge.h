#ifndef ACCEL_SERVER_SUPERVISOR_FAILURE_JUDGE_H_
#define ACCEL_SERVER_SUPERVISOR_FAILURE_JUDGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/job.pb.h"

namespace accel::supervisor {

// How a rank's process ended by itself.
struct RankExit {
  int rank = 0;
  // As waitpid gives it.
  int wait_status = 0;
  // Whether the rank had said that its work is done.
  bool finished = false;
  // Whether the kernel's out-of-memory killer ended a process meanwhile.
  bool out_of_memory = false;
  // Last step that the rank had begun; 0 before the first.
  int64_t step = 0;
};

// Finds the first cause among the failures of an attempt's ranks. When a rank dies, its peers'
// collectives fail, and they may say so before the death is seen: a failed collective therefore
// counts as the cause only while no rank has a cause of its own.
class FailureJudge {
 public:
  // A rank says why it cannot go on. Each rank counts once, with what it says first.
  void OnReport(int rank, const accel::internal::v1::WorkerFailure& report);

  // A rank's process ended by itself. No failure when it had finished and exited with 0.
  void OnExit(const RankExit& exit);

  // The time to show a cause is over and the rank, which has not finished, has begun `step`. Where
  // the verdict is a failed collective, the ranks that did not fail are the ones it waited for.
  void OnSilence(int rank, int64_t step);

  bool failed() const { return !failures_.empty(); }
  // Ranks that failed so far.
  int failed_ranks() const { return static_cast<int>(failures_.size()); }

  // The first cause, the others in `later`. Absent when no rank has failed.
  std::optional<accel::v1::Failure> Verdict() const;

 private:
  bool Knows(int rank) const;

  // As they came, one for each rank.
  std::vector<accel::v1::Failure> failures_;
  // Ranks that did not fail, in words.
  std::vector<std::string> silent_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_FAILURE_JUDGE_H_
