#include "server/supervisor/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "spdlog/spdlog.h"

namespace accel::supervisor {

EventLoop::EventLoop(const Clock& clock)
    : clock_(clock), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakeup_.valid()) {
    spdlog::critical("cannot create an eventfd: errno {}", errno);
    std::abort();
  }
  Watch(wakeup_.get(), POLLIN, [this](short) { RunPosted(); });
}

void EventLoop::Watch(int fd, short events, FdCallback callback) {
  watchers_[fd] = std::make_shared<Watcher>(Watcher{events, std::move(callback)});
}

void EventLoop::SetEvents(int fd, short events) {
  if (auto it = watchers_.find(fd); it != watchers_.end()) it->second->events = events;
}

void EventLoop::Unwatch(int fd) { watchers_.erase(fd); }

EventLoop::TimerId EventLoop::RunAfter(absl::Duration delay, Callback callback) {
  const TimerId id = next_timer_++;
  const absl::Duration deadline = clock_.Monotonic() + delay;
  timers_.emplace(TimerKey(deadline, id), std::move(callback));
  timer_deadlines_.emplace(id, deadline);
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  auto it = timer_deadlines_.find(timer);
  if (it == timer_deadlines_.end()) return;
  timers_.erase(TimerKey(it->second, timer));
  timer_deadlines_.erase(it);
}

void EventLoop::Post(Callback callback) {
  {
    absl::MutexLock lock(&mutex_);
    posted_.push_back(std::move(callback));
  }
  // A full counter is already readable: the loop wakes up all the same.
  eventfd_write(wakeup_.get(), 1);
}

void EventLoop::Run() {
  std::vector<pollfd> polled;
  while (!stopped_) {
    polled.clear();
    for (const auto& [fd, watcher] : watchers_) polled.push_back({fd, watcher->events, 0});
    if (poll(polled.data(), polled.size(), PollTimeoutMs()) > 0) Dispatch(polled);
    if (!stopped_) FireTimers();
  }
}

int EventLoop::PollTimeoutMs() const {
  if (timers_.empty()) return -1;
  const absl::Duration left = timers_.begin()->first.first - clock_.Monotonic();
  // Rounded up: a timer that is not due yet must not make the loop spin.
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), 0, INT_MAX));
}

void EventLoop::Dispatch(const std::vector<pollfd>& polled) {
  // A callback may close a descriptor and another may get its number: only the watcher that poll
  // was asked for is called, which its identity tells.
  std::vector<std::pair<pollfd, std::shared_ptr<Watcher>>> ready;
  for (const pollfd& entry : polled) {
    if (entry.revents != 0) ready.emplace_back(entry, watchers_.at(entry.fd));
  }
  for (const auto& [entry, watcher] : ready) {
    auto it = watchers_.find(entry.fd);
    if (it != watchers_.end() && it->second == watcher) watcher->callback(entry.revents);
  }
}

void EventLoop::FireTimers() {
  const absl::Duration now = clock_.Monotonic();
  while (!timers_.empty() && timers_.begin()->first.first <= now && !stopped_) {
    auto node = timers_.extract(timers_.begin());
    timer_deadlines_.erase(node.key().second);
    node.mapped()();
  }
}

void EventLoop::RunPosted() {
  eventfd_t count;
  eventfd_read(wakeup_.get(), &count);
  std::vector<Callback> callbacks;
  {
    absl::MutexLock lock(&mutex_);
    callbacks.swap(posted_);
  }
  for (const Callback& callback : callbacks) callback();
}

}  // namespace accel::supervisor
