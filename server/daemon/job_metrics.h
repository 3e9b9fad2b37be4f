#ifndef ACCEL_SERVER_DAEMON_JOB_METRICS_H_
#define ACCEL_SERVER_DAEMON_JOB_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "accel/v1/telemetry.pb.h"
#include "core/record/reader.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace accel::daemon {

// The families that have a series for each job (label `job`); METRICS.md lists them.
struct JobFamilies {
  explicit JobFamilies(prometheus::Registry* registry);

  // Gauges by the name of the metric in a record's rows.
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges;
  prometheus::Family<prometheus::Counter>* steps;
  prometheus::Family<prometheus::Counter>* samples;
  prometheus::Family<prometheus::Histogram>* step_duration;
  prometheus::Family<prometheus::Histogram>* checkpoint_stall;
  prometheus::Family<prometheus::Counter>* checkpoint_bytes;
  prometheus::Family<prometheus::Gauge>* checkpoint_time;
  prometheus::Family<prometheus::Counter>* warnings;
};

// The series of one job, fed from its record by a cursor; a series appears with its first value.
// Destroying it removes the series. Not thread-safe.
class JobMetrics {
 public:
  JobMetrics(JobFamilies* families, std::string job_id);
  ~JobMetrics();

  JobMetrics(const JobMetrics&) = delete;
  JobMetrics& operator=(const JobMetrics&) = delete;

  // Takes over all rows that are new. After an error the same rows come again.
  absl::Status Feed(record::Reader* reader);

 private:
  absl::Status FeedEvents(record::Reader* reader);
  absl::Status FeedMetrics(record::Reader* reader, int64_t bound);
  void OnEvent(const accel::v1::EventRecord& event);
  void OnMetrics(const accel::v1::MetricRecord& row);
  void OnStep(const accel::v1::MetricRecord& row);

  // The job's series of a family, made at the first use.
  template <typename Metric, typename... Arguments>
  Metric& Series(prometheus::Family<Metric>* family, const Arguments&... arguments);

  JobFamilies* const families_;
  const std::string job_id_;
  int64_t events_after_ = 0;
  int64_t metrics_after_ = 0;
  // Steps already done when an attempt began.
  std::map<int32_t, int64_t> first_step_;
  int32_t attempt_ = 0;
  int64_t last_step_ = 0;
  std::map<void*, void*> series_;
  std::vector<std::function<void()>> removals_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_METRICS_H_
