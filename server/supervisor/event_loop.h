#ifndef ACCEL_SERVER_SUPERVISOR_EVENT_LOOP_H_
#define ACCEL_SERVER_SUPERVISOR_EVENT_LOOP_H_

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/fd.h"

namespace accel::supervisor {

// One thread that waits with poll(2) for descriptors and timers and calls back. Everything but Post
// is for that thread alone. Callbacks may watch, unwatch and cancel anything, themselves included.
class EventLoop {
 public:
  using Callback = std::function<void()>;
  using FdCallback = std::function<void(short revents)>;
  // Never 0.
  using TimerId = int64_t;

  explicit EventLoop(const Clock& clock = Clock::Real());

  // Calls `callback` while any of `events` (POLLIN, POLLOUT) or an error is pending on `fd`, which
  // stays the caller's. A descriptor is watched at most once.
  void Watch(int fd, short events, FdCallback callback);
  // Changes what is waited for.
  void SetEvents(int fd, short events);
  // Must be called before the descriptor is closed. No effect on one that is not watched.
  void Unwatch(int fd);

  // Calls back once, `delay` of monotonic time from now.
  TimerId RunAfter(absl::Duration delay, Callback callback);
  // No effect once the timer has fired.
  void Cancel(TimerId timer);

  // Calls back in the loop's thread, soon. Thread-safe.
  void Post(Callback callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Serves until Stop.
  void Run();
  void Stop() { stopped_ = true; }

 private:
  struct Watcher {
    short events;
    FdCallback callback;
  };
  using TimerKey = std::pair<absl::Duration, TimerId>;

  int PollTimeoutMs() const;
  void Dispatch(const std::vector<pollfd>& polled);
  void FireTimers();
  void RunPosted() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  bool stopped_ = false;
  // Shared, so that a callback outlives its own Unwatch.
  std::map<int, std::shared_ptr<Watcher>> watchers_;
  std::map<TimerKey, Callback> timers_;
  std::map<TimerId, absl::Duration> timer_deadlines_;
  TimerId next_timer_ = 1;
  const Fd wakeup_;

  absl::Mutex mutex_;
  std::vector<Callback> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_EVENT_LOOP_H_
