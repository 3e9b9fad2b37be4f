#ifndef ACCEL_SERVER_DAEMON_NODE_METRICS_H_
#define ACCEL_SERVER_DAEMON_NODE_METRICS_H_

#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/service_environment.h"

namespace accel::daemon {

// What Prometheus sees of the node: jobs, ranks, calls and streams (METRICS.md lists the families;
// those of single jobs are in JobMetrics). Thread-safe.
class NodeMetrics final : public RpcObserver {
 public:
  explicit NodeMetrics(prometheus::Registry* registry);

  void OnTransition(accel::v1::Job::State from, accel::v1::Job::State to,
                    accel::v1::Failure::Cause cause);
  void SetLoad(const NodeLoad& load, int max_ranks);

  void OnUnaryCall(absl::string_view method, absl::StatusCode code,
                   absl::Duration elapsed) override;
  void OnSubscriber(absl::string_view kind, int change) override;
  void OnRecordsSent(absl::string_view kind, int64_t records) override;

 private:
  prometheus::Family<prometheus::Gauge>& jobs_;
  prometheus::Family<prometheus::Counter>& transitions_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Gauge& ranks_in_use_;
  prometheus::Gauge& ranks_limit_;
  prometheus::Gauge& queued_jobs_;
  prometheus::Family<prometheus::Histogram>& rpc_duration_;
  prometheus::Family<prometheus::Gauge>& subscribers_;
  prometheus::Family<prometheus::Counter>& records_sent_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_NODE_METRICS_H_
