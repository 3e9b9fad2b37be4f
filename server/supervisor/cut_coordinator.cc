#include "server/supervisor/cut_coordinator.h"

#include <algorithm>

namespace accel::supervisor {

using accel::internal::v1::Cut;
using accel::internal::v1::CutReply;
using accel::internal::v1::ToWorker;

void CutCoordinator::Request(Action action) {
  if (action_ == Cut::STOP) return;
  action_ = action;
  if (agreeing_) return;
  agreeing_ = true;
  replies_.clear();
  for (const int rank : finished_) replies_[rank] = kNever;
  ToWorker message;
  message.mutable_prepare_cut()->set_cut_id(++last_id_);
  broadcast_(message);
  CompleteIfAnswered();
}

void CutCoordinator::OnReply(int rank, const CutReply& reply) {
  if (!agreeing_ || reply.cut_id() != last_id_) return;
  replies_[rank] = reply.ticks_begun();
  CompleteIfAnswered();
}

void CutCoordinator::OnFinished(int rank) {
  finished_.insert(rank);
  if (!agreeing_) return;
  replies_[rank] = kNever;
  CompleteIfAnswered();
}

void CutCoordinator::CompleteIfAnswered() {
  if (static_cast<int>(replies_.size()) < world_size_) return;
  agreeing_ = false;
  int64_t tick = 0;
  for (const auto& [rank, ticks_begun] : replies_) tick = std::max(tick, ticks_begun);
  ToWorker message;
  message.mutable_cut()->set_cut_id(last_id_);
  message.mutable_cut()->set_tick(tick);
  message.mutable_cut()->set_action(action_);
  broadcast_(message);
}

}  // namespace accel::supervisor
