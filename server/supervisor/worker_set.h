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
#include "server/supervisor/rank_process.h"

namespace accel::supervisor {

// The processes of one attempt.
class WorkerSet {
 public:
  // Starts `world_size` workers and tells each what to train. `attempt` holds what is the same for
  // all: rank, world size and store are filled in. The store's port is bound here and handed to
  // rank 0 as a listening socket. An error leaves no process.
  static absl::StatusOr<std::unique_ptr<WorkerSet>> Start(
      EventLoop& loop, ProcessLauncher& launcher, const accel::internal::v1::JobLaunch& launch,
      accel::internal::v1::StartAttempt attempt, int world_size, WorkerObserver& observer);

  RankProcess& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int world_size() const { return static_cast<int>(ranks_.size()); }
  // Processes that are not reaped yet.
  int running() const;
  // Rank and process id of each.
  accel::v1::Attempt Describe(int number) const;

  void Broadcast(const accel::internal::v1::ToWorker& message);
  void CloseChannels();
  void Kill();

 private:
  WorkerSet() = default;

  // By rank.
  std::vector<std::unique_ptr<RankProcess>> ranks_;
};

// `environment` as `NAME=value`, with OMP_NUM_THREADS where it does not say: `num_threads`, or an
// equal share of the machine's cores for each rank, at least 1.
std::vector<std::string> WorkerEnvironment(
    const google::protobuf::Map<std::string, std::string>& environment, int num_threads,
    int world_size);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_WORKER_SET_H_
