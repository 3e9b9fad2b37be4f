#ifndef ACCEL_SERVER_SUPERVISOR_TRACKER_SET_H_
#define ACCEL_SERVER_SUPERVISOR_TRACKER_SET_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/clock.h"
#include "core/tracking/tracker.h"
#include "core/tracking/tracker_feed.h"
#include "core/tracking/tracker_settings.h"
#include "server/supervisor/event_loop.h"

namespace accel::supervisor {

// The trackers of a job, each fed from the record by a thread of its own. For the loop's thread;
// nothing here waits for a tracker.
class TrackerSet {
 public:
  // Something the user should know, with the subject of its event.
  using OnWarning = std::function<void(const std::string& subject, const std::string& message)>;

  // `on_warning` is called in the loop's thread. `loop` and `clock` must outlive this.
  TrackerSet(EventLoop& loop, const Clock& clock, OnWarning on_warning);
  // Waits for the bounded rest of a Finish.
  ~TrackerSet();

  // Starts feeding the job's trackers from its record, which must exist; those that have finished
  // already are left alone. Machines of a job other than 0 feed none.
  void Start(const accel::internal::v1::JobLaunch& launch, const std::filesystem::path& job_dir,
             const std::filesystem::path& record);

  // Rows up to `sequence` are in the record.
  void Notify(int64_t sequence);

  // Hands over what is left and closes the trackers, each within `grace`, then calls `done` in the
  // loop's thread. Once.
  void Finish(tracking::RunOutcome outcome, absl::Duration grace, std::function<void()> done);

 private:
  tracking::TrackerSettings ReadSettings(const accel::internal::v1::JobLaunch& launch);
  void Feed(std::unique_ptr<tracking::Tracker> tracker, const tracking::FeedOptions& options);
  // A tracker that cannot be fed at all: says so in the events and the record.
  void Refuse(const std::filesystem::path& record, const accel::v1::TrackerSpec& spec,
              const absl::Status& why);

  struct NamedFeed {
    std::string subject;
    std::unique_ptr<tracking::TrackerFeed> feed;
  };

  EventLoop& loop_;
  const Clock& clock_;
  const OnWarning on_warning_;
  std::vector<NamedFeed> feeds_;
  std::vector<std::thread> finishing_;
  size_t unfinished_ = 0;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_TRACKER_SET_H_
