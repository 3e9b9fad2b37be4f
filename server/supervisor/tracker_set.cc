#include "server/supervisor/tracker_set.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/tracking/factory.h"
#include "server/supervisor/flat_config.h"

namespace accel::supervisor {

using accel::v1::Job;
using accel::v1::TrackerSpec;
using tracking::FeedOptions;
using tracking::FeedWarning;
using tracking::RunOutcome;
using tracking::Tracker;
using tracking::TrackerContext;
using tracking::TrackerFeed;

TrackerSet::TrackerSet(EventLoop& loop, const Clock& clock, OnWarning on_warning)
    : loop_(loop), clock_(clock), on_warning_(std::move(on_warning)) {}

TrackerSet::~TrackerSet() {
  for (std::thread& thread : finishing_) thread.join();
}

void TrackerSet::Start(const Job& job, const std::filesystem::path& job_dir,
                       const std::filesystem::path& record) {
  const accel::v1::TrackingSpec& spec = job.spec().tracking();
  TrackerContext context;
  context.job_id = job.name().substr(job.name().rfind('/') + 1);
  context.project = spec.has_project() ? spec.project() : context.job_id;
  context.folder = job_dir / "trackers";
  context.clock = &clock_;
  FeedOptions options;
  options.record_path = record;
  options.init_configuration = FlatConfig(job);
  for (const TrackerSpec& tracker_spec : spec.trackers()) {
    auto tracker = tracking::MakeTracker(tracker_spec, context);
    if (!tracker.ok()) {
      on_warning_("trackers", std::string(tracker.status().message()));
      continue;
    }
    options.batch_delay = tracking::BatchDelay(tracker_spec);
    std::string subject = absl::StrCat("trackers/", (*tracker)->name());
    auto feed = std::make_unique<TrackerFeed>(
        *std::move(tracker), options, &clock_, [this](const FeedWarning& warning) {
          loop_.Post([this, warning] { on_warning_(warning.subject, warning.message); });
        });
    feeds_.push_back({std::move(subject), std::move(feed)});
  }
}

void TrackerSet::Notify(int64_t sequence) {
  for (const NamedFeed& named : feeds_) named.feed->Notify(sequence);
}

void TrackerSet::Finish(RunOutcome outcome, absl::Duration grace, std::function<void()> done) {
  if (feeds_.empty()) return loop_.Post(std::move(done));
  unfinished_ = feeds_.size();
  for (const NamedFeed& named : feeds_) {
    finishing_.emplace_back([this, &named, outcome, grace, done] {
      const absl::Status status = named.feed->Finish(outcome, grace);
      loop_.Post([this, &named, status, done] {
        if (!status.ok()) {
          on_warning_(named.subject, absl::StrCat("not finished: ", status.message()));
        }
        if (--unfinished_ == 0) done();
      });
    });
  }
}

}  // namespace accel::supervisor
