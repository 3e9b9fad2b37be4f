#include "core/tracking/tracker_feed.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/tracking/feed_worker.h"

namespace accel::tracking {

TrackerFeed::TrackerFeed(std::unique_ptr<Tracker> tracker, FeedOptions options, const Clock* clock,
                         WarningCallback on_warning)
    : worker_(std::make_shared<FeedWorker>(std::move(tracker), std::move(options), clock,
                                           std::move(on_warning))),
      thread_([worker = worker_] { worker->Run(); }) {}

TrackerFeed::~TrackerFeed() { EndThread(); }

void TrackerFeed::Notify(int64_t sequence) { worker_->Notify(sequence); }

FeedSnapshot TrackerFeed::Snapshot() const { return worker_->Snapshot(); }

absl::Status TrackerFeed::Finish(RunOutcome outcome, absl::Duration timeout) {
  absl::MutexLock lock(&finish_mutex_);
  if (result_.has_value()) return *result_;
  const bool finished = worker_->FinishWithin(outcome, timeout);
  EndThread();
  if (finished) return result_.emplace(absl::OkStatus());
  const FeedSnapshot snapshot = worker_->Snapshot();
  if (snapshot.stopped) return result_.emplace(snapshot.last_error);
  return result_.emplace(absl::DeadlineExceededError(absl::StrCat(
      "tracker ", snapshot.name, " did not finish within ", absl::FormatDuration(timeout),
      ", it has the rows up to ", snapshot.last_sequence,
      snapshot.last_error.ok() ? "" : absl::StrCat(": ", snapshot.last_error.ToString()))));
}

void TrackerFeed::EndThread() {
  const bool ends_soon = worker_->Abandon();
  if (!thread_.joinable()) return;
  if (ends_soon) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace accel::tracking
