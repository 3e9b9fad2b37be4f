#include "server/daemon/admission_queue.h"

#include <algorithm>

namespace accel::daemon {

void AdmissionQueue::Enqueue(std::string job_id, int ranks) {
  queue_.emplace_back(std::move(job_id), ranks);
}

void AdmissionQueue::PutBack(std::string job_id, int ranks) {
  Release(job_id);
  queue_.emplace_front(std::move(job_id), ranks);
}

bool AdmissionQueue::Remove(absl::string_view job_id) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const auto& entry) { return entry.first == job_id; });
  if (found == queue_.end()) return false;
  queue_.erase(found);
  return true;
}

std::optional<std::string> AdmissionQueue::Admit() {
  if (queue_.empty() || ranks_in_use_ + queue_.front().second > max_ranks_) return std::nullopt;
  auto [job_id, ranks] = std::move(queue_.front());
  queue_.pop_front();
  Occupy(job_id, ranks);
  return job_id;
}

void AdmissionQueue::Occupy(std::string job_id, int ranks) {
  if (running_.emplace(std::move(job_id), ranks).second) ranks_in_use_ += ranks;
}

void AdmissionQueue::Release(absl::string_view job_id) {
  const auto found = running_.find(job_id);
  if (found == running_.end()) return;
  ranks_in_use_ -= found->second;
  running_.erase(found);
}

}  // namespace accel::daemon
