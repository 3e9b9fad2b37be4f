#ifndef ACCEL_SERVER_SUPERVISOR_WORKER_SET_H_
#define ACCEL_SERVER_SUPERVISOR_WORKER_SET_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/job.pb.h"
#include "core/base/process.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/rank_handle.h"

namespace accel::supervisor {

// The ranks of one attempt that a supervisor deals with: those of its machine, and, where it leads
// several machines, those of the others behind them.
class WorkerSet {
 public:
  // Starts `count` workers on this machine, the ranks from `first_rank` on, and tells each what to
  // train. `attempt` holds what is the same for all: ranks are filled in. Rank 0 gets
  // `store_listen_fd`. An error leaves no process.
  static absl::StatusOr<std::unique_ptr<WorkerSet>> Start(
      EventLoop& loop, ProcessLauncher& launcher, const accel::internal::v1::JobLaunch& launch,
      accel::internal::v1::StartAttempt attempt, int first_rank, int count, int store_listen_fd,
      const std::map<std::string, std::string>& environment, WorkerObserver& observer);

  // Adds the next rank, of another machine.
  void Add(std::unique_ptr<RankHandle> rank) { ranks_.push_back(std::move(rank)); }

  RankHandle& rank(int rank) { return *ranks_[static_cast<size_t>(rank - first_rank_)]; }
  bool Has(int rank) const {
    return rank >= first_rank_ && rank < first_rank_ + static_cast<int>(ranks_.size());
  }
  // Processes that are not reaped yet.
  int running() const;
  // Rank and process id of those on this machine.
  accel::v1::Attempt Describe(int number) const;

  void Broadcast(const accel::internal::v1::ToWorker& message);
  void CloseChannels();
  void Kill();

 private:
  explicit WorkerSet(int first_rank) : first_rank_(first_rank) {}

  const int first_rank_;
  // In the order of ranks.
  std::vector<std::unique_ptr<RankHandle>> ranks_;
};

// `environment` as `NAME=value`, with OMP_NUM_THREADS where it does not say: `num_threads`, or an
// equal share of the machine's cores for each of its ranks, at least 1.
std::vector<std::string> WorkerEnvironment(
    const google::protobuf::Map<std::string, std::string>& environment, int num_threads,
    int local_world_size);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_WORKER_SET_H_
