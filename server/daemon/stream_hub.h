#ifndef ACCEL_SERVER_DAEMON_STREAM_HUB_H_
#define ACCEL_SERVER_DAEMON_STREAM_HUB_H_

#include <atomic>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// A stream to one client. Pump runs on the pool, one call at a time, whenever there may be
// something to do: after Wake, and after a write is done.
class Stream : public JobWatcher, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(ServiceEnvironment* environment) : environment_(environment) {}

  void OnJobChanged() override { Wake(); }
  // Thread-safe.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Called every now and then.
  virtual void OnTick(absl::Duration now) = 0;

 protected:
  // What Pump has left behind.
  enum class Next {
    // Nothing to do before the next Wake.
    kSleep,
    // Call Pump again, after others had their turn.
    kAgain,
    // A write or the end was started: Written calls Pump again, or nothing does.
    kBusy,
  };

  virtual Next Pump() = 0;
  // To be called when a write is done.
  void Written() ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceEnvironment* const environment_;

 private:
  void Submit();
  void RunPump() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

struct StreamLimits {
  int max_streams = 256;
  // After this long without a message, a following stream sends its progress.
  absl::Duration idle_interval = absl::Seconds(5);
};

// All streams of the node: their number, their clock, their end when the node drains. Thread-safe.
class StreamHub {
 public:
  StreamHub(ServiceEnvironment* environment, StreamLimits limits);
  ~StreamHub();

  // RESOURCE_EXHAUSTED with reason TOO_MANY_STREAMS; UNAVAILABLE while draining.
  absl::Status Add(const std::shared_ptr<Stream>& stream);
  void Remove(const Stream* stream);

  // Ends every stream with UNAVAILABLE; waits until they are gone, at most `patience`.
  void Drain(absl::Duration patience);

  ServiceEnvironment* environment() const { return environment_; }
  absl::Duration idle_interval() const { return limits_.idle_interval; }

 private:
  void RunTicker();
  void ForEach(void (*visit)(Stream*, absl::Duration)) ABSL_LOCKS_EXCLUDED(mutex_);
  bool NoneLeft() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return streams_.empty(); }

  ServiceEnvironment* const environment_;
  const StreamLimits limits_;

  absl::Mutex mutex_;
  absl::flat_hash_map<const Stream*, std::weak_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread ticker_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_STREAM_HUB_H_
