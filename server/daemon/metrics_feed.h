#ifndef ACCEL_SERVER_DAEMON_METRICS_FEED_H_
#define ACCEL_SERVER_DAEMON_METRICS_FEED_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/record/reader.h"
#include "prometheus/registry.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/job_metrics.h"
#include "server/daemon/node_metrics.h"

namespace accel::daemon {

struct MetricsFeedOptions {
  absl::Duration interval = absl::Seconds(1);
  // For how long the series of an ended job stay.
  absl::Duration keep = absl::Minutes(5);
  // Jobs with series of their own; a job above that has none.
  size_t max_jobs = 64;
};

// Brings the jobs' records to Prometheus: one thread reads what is new, about once a second. Calls
// and steps never wait for it. An ended job is read to its end before its series go.
class MetricsFeed final : public JobObserver {
 public:
  MetricsFeed(prometheus::Registry* registry, NodeMetrics* node_metrics,
              std::filesystem::path jobs_dir, MetricsFeedOptions options,
              const Clock& clock = Clock::Real());
  ~MetricsFeed() override;

  // Starts the thread; `jobs` must outlive Stop.
  void Start(JobManager* jobs, int max_ranks);
  void Stop();

  void OnTransition(const std::string& job_id, accel::v1::Job::State from, accel::v1::Job::State to,
                    accel::v1::Failure::Cause cause) override;
  void OnAdopted(const std::string& job_id) override;

  // One round, for tests; otherwise called by the thread only.
  void Tick();

 private:
  struct FedJob {
    std::unique_ptr<JobMetrics> metrics;
    std::unique_ptr<record::Reader> reader;
    std::optional<absl::Duration> ended;
    bool drained = false;
  };

  void Run(JobManager* jobs, int max_ranks);
  void TakeChanges();
  void FeedJob(const std::string& job_id, FedJob* job);

  const std::filesystem::path jobs_dir_;
  const MetricsFeedOptions options_;
  const Clock& clock_;
  NodeMetrics* const node_metrics_;
  JobFamilies families_;
  prometheus::Counter& suppressed_;
  prometheus::Counter& errors_;
  // Used by Tick alone.
  std::map<std::string, FedJob> jobs_;

  absl::Mutex mutex_;
  // Since the last round: {job, whether it started (or else ended)}.
  std::vector<std::pair<std::string, bool>> changes_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_METRICS_FEED_H_
