#ifndef ACCEL_SERVER_DAEMON_WORK_POOL_H_
#define ACCEL_SERVER_DAEMON_WORK_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace accel::daemon {

// A few threads that do what must not hold up gRPC's own: requests that write to the store, reads
// of records for streams. First in, first out. Thread-safe.
class WorkPool {
 public:
  explicit WorkPool(int threads);
  // Finishes what is queued.
  ~WorkPool();

  void Submit(std::function<void()> work);

 private:
  void Run();
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_WORK_POOL_H_
