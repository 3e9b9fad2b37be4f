#ifndef ACCEL_SERVER_SUPERVISOR_CUT_COORDINATOR_H_
#define ACCEL_SERVER_SUPERVISOR_CUT_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "accel/internal/v1/worker.pb.h"

namespace accel::supervisor {

// Makes all ranks act at the same tick, by the two-phase cut of worker.proto. Cuts are agreed one
// after the other. What the ranks do at a cut is said with its second half, so a request that comes
// while a cut is being agreed is served by that cut: a checkpoint joins it, a stop takes its place.
class CutCoordinator {
 public:
  using Action = accel::internal::v1::Cut::Action;
  // Sends a message to every rank.
  using Broadcast = std::function<void(const accel::internal::v1::ToWorker&)>;

  CutCoordinator(int world_size, Broadcast broadcast)
      : world_size_(world_size), broadcast_(std::move(broadcast)) {}

  // Requests after a stop come to nothing.
  void Request(Action action);

  // A rank's answer. Answers to other cuts than the one under way are ignored. With the last one,
  // all ranks are told the greatest tick.
  void OnReply(int rank, const accel::internal::v1::CutReply& reply);

  // A rank has done its work and will answer no more. Ranks that wait for a cut then go on to their
  // own end: the cut is for a tick that never comes.
  void OnFinished(int rank);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  void CompleteIfAnswered();

  const int world_size_;
  const Broadcast broadcast_;
  int64_t last_id_ = 0;
  bool agreeing_ = false;
  Action action_ = accel::internal::v1::Cut::ACTION_UNSPECIFIED;
  // Ticks begun, by rank; kNever for one that has finished.
  std::map<int, int64_t> replies_;
  std::set<int> finished_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_CUT_COORDINATOR_H_
