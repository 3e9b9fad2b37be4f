#ifndef ACCEL_CORE_TRACKING_TRACKER_FEED_H_
#define ACCEL_CORE_TRACKING_TRACKER_FEED_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/record/reader.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

struct FeedOptions {
  // The job's record, which must exist before it can be fed from.
  std::filesystem::path record_path;
  // What StoreInitConfiguration gets.
  ConfigMap init_configuration;
  // How long a new row waits for others; see BatchDelay.
  absl::Duration batch_delay = absl::Milliseconds(200);
  // Rows of one Log.
  record::ReadLimits batch;
  // After the n-th failure in a row the feed waits between half and all of
  // min(max_backoff, first_backoff * 2^(n-1)).
  absl::Duration first_backoff = absl::Milliseconds(500);
  absl::Duration max_backoff = absl::Minutes(1);
  // What must not be seen is taken out of every text that leaves the feed. Must be thread-safe.
  std::function<std::string(absl::string_view)> redact = [](absl::string_view text) {
    return std::string(text);
  };
};

// Something for the job's events.
struct FeedWarning {
  // `trackers/<name>`, as in accel.v1.Warning.
  std::string subject;
  std::string message;
  // Failures in a row; 0 for a warning that is no failure.
  int64_t failures = 0;
};

// Where a feed stands.
struct FeedSnapshot {
  // The tracker's name.
  std::string name;
  // Every row up to here has been handed over or is none of the tracker's.
  int64_t last_sequence = 0;
  // Step of the last row that was handed over.
  std::optional<int64_t> last_step;
  // Rows handed over by this process.
  int64_t rows = 0;
  // Failures in a row, and of this process.
  int64_t failures = 0;
  int64_t total_failures = 0;
  // The last failure; OK when what came after it succeeded.
  absl::Status last_error;
  // Whether the tracker's Finish has succeeded.
  bool finished = false;
  // Whether the feed has given up after a permanent error; the rows are kept.
  bool stopped = false;
};

class FeedWorker;

// The thread that feeds one tracker from the job's record, from the tracker's cursor in that record
// on: Start at the first row, StoreInitConfiguration once in the job's life, Log in batches, the
// cursor advanced after each. Of what fails nothing is lost: the rows stay in the record and are
// handed over again after a wait, at least once each; after an error that repeating cannot mend
// (IsPermanent) the feed stops and a later one goes on. How it stands is kept in the record too
// (accel.v1.TrackerStatus). Nothing but this thread ever waits for the tracker.
//
// Thread-safe.
class TrackerFeed {
 public:
  // Called by the feed's thread for each warning of the tracker, for the first failure in a row and
  // when the failure changes. Must be thread-safe, must not wait for the feed. Never called after
  // Finish or the destructor has returned.
  using WarningCallback = std::function<void(const FeedWarning&)>;

  // Starts the thread. `clock` must outlive it.
  TrackerFeed(std::unique_ptr<Tracker> tracker, FeedOptions options, const Clock* clock,
              WarningCallback on_warning);
  // As Finish that has no time left, and without the tracker's Finish.
  ~TrackerFeed();

  TrackerFeed(const TrackerFeed&) = delete;
  TrackerFeed& operator=(const TrackerFeed&) = delete;

  // Rows up to `sequence` are in the record.
  void Notify(int64_t sequence);

  // Hands over the rows that are left, without waits for a batch, then the tracker's Finish, and
  // ends the thread. The feed's error when it has stopped; DEADLINE_EXCEEDED when that was not done
  // within `timeout`: the rows are kept
  // and a later feed goes on with them; a thread that is still in a call of the tracker is left
  // behind and ends when the call returns. Later calls return the first one's result.
  absl::Status Finish(RunOutcome outcome, absl::Duration timeout);

  FeedSnapshot Snapshot() const;

 private:
  void EndThread();

  // Shared with the thread, which may outlive this object.
  const std::shared_ptr<FeedWorker> worker_;
  std::thread thread_;
  absl::Mutex finish_mutex_;
  std::optional<absl::Status> result_ ABSL_GUARDED_BY(finish_mutex_);
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TRACKER_FEED_H_
