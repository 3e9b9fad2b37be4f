#ifndef ACCEL_CORE_TRACKING_FEED_WORKER_H_
#define ACCEL_CORE_TRACKING_FEED_WORKER_H_

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/tracking/feed_source.h"
#include "core/tracking/tracker_feed.h"

namespace accel::tracking {

// What the thread of a TrackerFeed does and shares with it. Run is called by the thread, everything
// else by any other.
class FeedWorker {
 public:
  FeedWorker(std::unique_ptr<Tracker> tracker, FeedOptions options, const Clock* clock,
             TrackerFeed::WarningCallback on_warning);

  // Feeds until the tracker's Finish has succeeded or Abandon was called.
  void Run();

  void Notify(int64_t sequence) ABSL_LOCKS_EXCLUDED(mutex_);
  FeedSnapshot Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Asks for the end in order and waits for it; false when the time was not enough.
  bool FinishWithin(RunOutcome outcome, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes Run return and silences the callback. False when a call of the tracker is under way, for
  // which Run must be waited for as long as the call takes.
  bool Abandon() ABSL_LOCKS_EXCLUDED(mutex_, callback_mutex_);

 private:
  enum class Progress { kMore, kCaughtUp, kFinished };

  // False when there will be no more work.
  bool WaitForWork() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Progress> Step();
  absl::Status EnsureStarted(std::optional<int64_t> first_step);
  absl::Status Call(absl::FunctionRef<absl::Status(Tracker&)> call) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteProgress(Progress progress) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteFailure(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status AnnounceRepeat(const RewindFilter::Repeat& repeat);
  absl::Duration Backoff(int64_t failures);
  // Writes the status into the record, where it has changed and not too often.
  void KeepStatus(bool now) ABSL_LOCKS_EXCLUDED(mutex_);
  accel::v1::TrackerStatus Status() ABSL_LOCKS_EXCLUDED(mutex_);
  void Warn(std::string message, int64_t failures) ABSL_LOCKS_EXCLUDED(callback_mutex_);

  const std::unique_ptr<Tracker> tracker_;
  const FeedOptions options_;
  const Clock* const clock_;

  // Of the thread alone.
  FeedSource source_;
  bool started_ = false;
  // The configuration, by this process.
  bool told_ = false;
  std::minstd_rand random_;
  std::optional<int64_t> announced_repeat_;
  accel::v1::TrackerStatus kept_;
  absl::Duration kept_at_ = -absl::InfiniteDuration();
  std::string last_error_text_;
  absl::Time last_error_time_;
  absl::Time last_success_time_;

  mutable absl::Mutex mutex_;
  absl::CondVar changed_ ABSL_GUARDED_BY(mutex_);
  int64_t notified_ ABSL_GUARDED_BY(mutex_) = 0;
  // Monotonic time of the next Step; infinite while there is nothing to do.
  absl::Duration due_ ABSL_GUARDED_BY(mutex_);
  std::optional<RunOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool in_tracker_ ABSL_GUARDED_BY(mutex_) = false;
  FeedSnapshot snapshot_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex callback_mutex_;
  TrackerFeed::WarningCallback on_warning_ ABSL_GUARDED_BY(callback_mutex_);
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_FEED_WORKER_H_
