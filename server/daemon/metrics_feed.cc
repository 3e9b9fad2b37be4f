#include "server/daemon/metrics_feed.h"

#include <utility>

#include "server/daemon/job_folder.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {

using accel::v1::Job;

MetricsFeed::MetricsFeed(prometheus::Registry* registry, NodeMetrics* node_metrics,
                         std::filesystem::path jobs_dir, MetricsFeedOptions options,
                         const Clock& clock)
    : jobs_dir_(std::move(jobs_dir)),
      options_(options),
      clock_(clock),
      node_metrics_(node_metrics),
      families_(registry),
      suppressed_(prometheus::BuildCounter()
                      .Name("accel_job_series_suppressed_total")
                      .Help("Jobs without series of their own because of the limit on jobs.")
                      .Register(*registry)
                      .Add({})),
      errors_(prometheus::BuildCounter()
                  .Name("accel_metrics_feed_errors_total")
                  .Help("Failed attempts to read a job's record for these metrics.")
                  .Register(*registry)
                  .Add({})) {}

MetricsFeed::~MetricsFeed() { Stop(); }

void MetricsFeed::Start(JobManager* jobs, int max_ranks) {
  node_metrics_->SetLoad(jobs->Load(), max_ranks);
  thread_ = std::thread(&MetricsFeed::Run, this, jobs, max_ranks);
}

void MetricsFeed::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void MetricsFeed::OnTransition(const std::string& job_id, Job::State from, Job::State to,
                               accel::v1::Failure::Cause cause) {
  node_metrics_->OnTransition(from, to, cause);
  absl::MutexLock lock(&mutex_);
  if (to == Job::STARTING) changes_.emplace_back(job_id, true);
  if (IsTerminal(to)) changes_.emplace_back(job_id, false);
}

void MetricsFeed::OnAdopted(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  changes_.emplace_back(job_id, true);
}

void MetricsFeed::Run(JobManager* jobs, int max_ranks) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
    }
    node_metrics_->SetLoad(jobs->Load(), max_ranks);
    Tick();
  }
}

void MetricsFeed::Tick() {
  TakeChanges();
  const absl::Duration now = clock_.Monotonic();
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    FedJob& job = it->second;
    if (!job.drained) FeedJob(it->first, &job);
    const bool over = job.ended.has_value() && now - *job.ended >= options_.keep;
    it = over ? jobs_.erase(it) : std::next(it);
  }
}

void MetricsFeed::TakeChanges() {
  std::vector<std::pair<std::string, bool>> changes;
  {
    absl::MutexLock lock(&mutex_);
    changes.swap(changes_);
  }
  for (const auto& [job_id, started] : changes) {
    if (!started) {
      const auto found = jobs_.find(job_id);
      if (found != jobs_.end()) found->second.ended = clock_.Monotonic();
      continue;
    }
    // The id of a deleted job can come again: its old series must go first.
    jobs_.erase(job_id);
    if (jobs_.size() >= options_.max_jobs) {
      suppressed_.Increment();
      continue;
    }
    jobs_[job_id].metrics = std::make_unique<JobMetrics>(&families_, job_id);
  }
}

void MetricsFeed::FeedJob(const std::string& job_id, FedJob* job) {
  absl::Status status;
  if (job->reader == nullptr) {
    auto reader = record::Reader::Open(JobFolder{jobs_dir_ / job_id}.record());
    if (reader.ok()) job->reader = *std::move(reader);
    status = reader.status();
  }
  if (job->reader != nullptr) status = job->metrics->Feed(job->reader.get());
  // A job has no record before its supervisor has begun, and none when that never happened.
  if (!status.ok() && !absl::IsNotFound(status)) {
    errors_.Increment();
    spdlog::warn("metrics of job {}: {}", job_id, std::string(status.message()));
    job->reader.reset();
  }
  if (job->ended.has_value()) {
    job->drained = true;
    job->reader.reset();
  }
}

}  // namespace accel::daemon
