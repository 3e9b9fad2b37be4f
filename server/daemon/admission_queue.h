#ifndef ACCEL_SERVER_DAEMON_ADMISSION_QUEUE_H_
#define ACCEL_SERVER_DAEMON_ADMISSION_QUEUE_H_

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace accel::daemon {

// Who may start: first in, first out, never more than `max_ranks` ranks at a time. The first of the
// queue is never overtaken, so a wide job cannot starve. Not thread-safe.
class AdmissionQueue {
 public:
  explicit AdmissionQueue(int max_ranks) : max_ranks_(max_ranks) {}

  void Enqueue(std::string job_id, int ranks);
  // Puts a job back to the head of the queue; its ranks, if it holds any, are free again.
  void PutBack(std::string job_id, int ranks);
  // Removes a waiting job; false when it does not wait.
  bool Remove(absl::string_view job_id);

  // The first job, when its ranks are free: they are in use from now on. None otherwise.
  std::optional<std::string> Admit();
  // Counts ranks of a job that runs already, even beyond the limit.
  void Occupy(std::string job_id, int ranks);
  // Gives a job's ranks back; no effect when it holds none.
  void Release(absl::string_view job_id);

  int queued() const { return static_cast<int>(queue_.size()); }
  int ranks_in_use() const { return ranks_in_use_; }
  int max_ranks() const { return max_ranks_; }

 private:
  const int max_ranks_;
  int ranks_in_use_ = 0;
  std::deque<std::pair<std::string, int>> queue_;
  std::map<std::string, int, std::less<>> running_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_ADMISSION_QUEUE_H_
