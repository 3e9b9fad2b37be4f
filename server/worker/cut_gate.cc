#include "server/worker/cut_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace accel::worker {

using accel::internal::v1::Cut;

int64_t CutGate::Prepare(int64_t cut_id) {
  absl::MutexLock lock(&mutex_);
  prepared_.insert(cut_id);
  return ticks_begun_;
}

absl::Status CutGate::Apply(const Cut& cut) {
  absl::MutexLock lock(&mutex_);
  if (cut.action() != Cut::CHECKPOINT && cut.action() != Cut::STOP) {
    return absl::InvalidArgumentError(
        absl::StrCat("cut ", cut.cut_id(), " has the unknown action ", cut.action()));
  }
  if (cut.tick() < ticks_begun_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cut ", cut.cut_id(), " is for tick ", cut.tick(), ", but ", ticks_begun_, " have begun"));
  }
  cuts_.push_back(cut);
  prepared_.erase(cut.cut_id());
  return absl::OkStatus();
}

engine::TickGate::Decision CutGate::BeginTick() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &CutGate::Agreed));
  Decision decision;
  cuts_.erase(std::remove_if(cuts_.begin(), cuts_.end(),
                             [&](const Cut& cut) {
                               if (cut.tick() != ticks_begun_) return false;
                               decision.checkpoint |= cut.action() == Cut::CHECKPOINT;
                               decision.stop |= cut.action() == Cut::STOP;
                               return true;
                             }),
              cuts_.end());
  if (!decision.stop) ++ticks_begun_;
  return decision;
}

bool CutGate::StopsHere() const {
  return std::any_of(cuts_.begin(), cuts_.end(), [this](const Cut& cut) {
    return cut.action() == Cut::STOP && cut.tick() == ticks_begun_;
  });
}

bool CutGate::StopRequested() const {
  absl::MutexLock lock(&mutex_);
  return StopsHere();
}

bool CutGate::StoppedBeforeFirstTick() const {
  absl::MutexLock lock(&mutex_);
  return ticks_begun_ == 0 && StopsHere();
}

}  // namespace accel::worker
