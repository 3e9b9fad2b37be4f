#include "server/supervisor/tracker_set.h"

#include <unistd.h>

#include <climits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/secrets_file.h"
#include "core/config/job_spec.h"
#include "core/record/reader.h"
#include "core/record/tracker_cursors.h"
#include "core/tracking/factory.h"
#include "google/protobuf/util/time_util.h"
#include "server/supervisor/flat_config.h"

namespace accel::supervisor {

using accel::internal::v1::JobLaunch;
using accel::v1::Job;
using accel::v1::TrackerSpec;
using google::protobuf::util::TimeUtil;
using tracking::FeedOptions;
using tracking::FeedWarning;
using tracking::RunOutcome;
using tracking::Tracker;
using tracking::TrackerContext;
using tracking::TrackerFeed;

namespace {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "localhost";
}

std::set<std::string> FinishedTrackers(const std::filesystem::path& record) {
  std::set<std::string> names;
  auto reader = record::Reader::Open(record);
  if (!reader.ok()) return names;
  const auto trackers = (*reader)->ListTrackers();
  if (!trackers.ok()) return names;
  for (const accel::v1::TrackerStatus& tracker : *trackers) {
    if (tracker.state() == accel::v1::TrackerStatus::FINISHED) names.insert(tracker.name());
  }
  return names;
}

}  // namespace

TrackerSet::TrackerSet(EventLoop& loop, const Clock& clock, OnWarning on_warning)
    : loop_(loop), clock_(clock), on_warning_(std::move(on_warning)) {}

TrackerSet::~TrackerSet() {
  for (std::thread& thread : finishing_) thread.join();
}

void TrackerSet::Start(const JobLaunch& launch, const std::filesystem::path& job_dir,
                       const std::filesystem::path& record) {
  const Job& job = launch.job();
  const accel::v1::TrackingSpec& spec =
      job.has_resolved_tracking() ? job.resolved_tracking() : job.spec().tracking();
  // The metrics of a job of several machines are in machine 0's record only.
  if (spec.trackers().empty() || config::IsMachineMember(job.spec())) return;
  TrackerContext context;
  context.job_id = job.name().substr(job.name().rfind('/') + 1);
  context.job_uid = job.uid();
  context.create_time = absl::FromUnixMicros(TimeUtil::TimestampToMicroseconds(job.create_time()));
  context.host_name = HostName();
  context.project = spec.has_project() ? spec.project() : context.job_id;
  context.folder = job_dir / "trackers";
  context.clock = &clock_;
  context.settings = ReadSettings(launch);
  context.custom = {launch.custom_trackers().begin(), launch.custom_trackers().end()};
  context.plugins = {launch.tracker_plugins().begin(), launch.tracker_plugins().end()};
  context.plugin_host = "/proc/self/exe";
  context.make_http = [ca_file = launch.tracker_ca_file()](tracking::HttpOptions options) {
    options.ca_file = ca_file;
    return tracking::HttpClient::Make(options);
  };
  FeedOptions options;
  options.record_path = record;
  options.init_configuration = FlatConfig(job);
  options.redact = [settings = context.settings](absl::string_view text) {
    return settings.Redact(text);
  };
  const std::set<std::string> finished = FinishedTrackers(record);
  for (const TrackerSpec& tracker_spec : spec.trackers()) {
    auto trackers = tracking::MakeTrackers(tracker_spec, context);
    if (!trackers.ok()) {
      Refuse(record, tracker_spec, trackers.status());
      continue;
    }
    options.batch_delay = tracking::BatchDelay(tracker_spec);
    for (std::unique_ptr<Tracker>& tracker : *trackers) {
      if (finished.count(std::string(tracker->name())) == 0) Feed(std::move(tracker), options);
    }
  }
}

void TrackerSet::Feed(std::unique_ptr<Tracker> tracker, const FeedOptions& options) {
  std::string subject = absl::StrCat("trackers/", tracker->name());
  auto feed = std::make_unique<TrackerFeed>(
      std::move(tracker), options, &clock_, [this](const FeedWarning& warning) {
        loop_.Post([this, warning] { on_warning_(warning.subject, warning.message); });
      });
  feeds_.push_back({std::move(subject), std::move(feed)});
}

tracking::TrackerSettings TrackerSet::ReadSettings(const JobLaunch& launch) {
  std::map<std::string, std::string> secrets;
  if (!launch.secrets_file().empty()) {
    auto read = ReadSecretsFile(launch.secrets_file());
    if (read.ok()) {
      secrets = *std::move(read);
    } else {
      on_warning_("trackers", absl::StrCat("no secrets: ", read.status().message()));
    }
  }
  return {{launch.tracker_environment().begin(), launch.tracker_environment().end()},
          std::move(secrets)};
}

void TrackerSet::Refuse(const std::filesystem::path& record, const TrackerSpec& spec,
                        const absl::Status& why) {
  accel::v1::TrackerStatus status;
  status.set_name(spec.has_custom()
                      ? spec.custom().name()
                      : TrackerSpec::descriptor()->FindFieldByNumber(spec.tracker_case())->name());
  status.set_state(accel::v1::TrackerStatus::STOPPED);
  status.set_failures(1);
  status.set_total_failures(1);
  status.set_last_error(why.ToString());
  *status.mutable_last_error_time() = TimeUtil::MicrosecondsToTimestamp(NowMicros(clock_));
  auto cursors = record::TrackerCursors::Open(record);
  if (cursors.ok()) (*cursors)->SetStatus(status).IgnoreError();
  on_warning_(absl::StrCat("trackers/", status.name()),
              absl::StrCat("tracker ", status.name(), " is not fed: ", why.message()));
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
