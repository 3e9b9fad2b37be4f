#include "server/daemon/node_metrics.h"

namespace accel::daemon {
namespace {

using accel::v1::Failure;
using accel::v1::Job;
using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

prometheus::Gauge& SingleGauge(prometheus::Registry* registry, const std::string& name,
                               const std::string& help) {
  return BuildGauge().Name(name).Help(help).Register(*registry).Add({});
}

const prometheus::Histogram::BucketBoundaries& RpcEdges() {
  static const auto* const edges = new prometheus::Histogram::BucketBoundaries{
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};
  return *edges;
}

}  // namespace

NodeMetrics::NodeMetrics(prometheus::Registry* registry)
    : jobs_(BuildGauge()
                .Name("accel_jobs")
                .Help("Jobs that the node keeps, by state.")
                .Register(*registry)),
      transitions_(BuildCounter()
                       .Name("accel_job_state_transitions_total")
                       .Help("Changes of a job's state since the daemon started.")
                       .Register(*registry)),
      failures_(BuildCounter()
                    .Name("accel_job_failures_total")
                    .Help("Jobs that failed since the daemon started, by first cause.")
                    .Register(*registry)),
      ranks_in_use_(SingleGauge(registry, "accel_ranks_in_use", "Ranks of jobs that run.")),
      ranks_limit_(SingleGauge(registry, "accel_ranks_limit", "Most ranks at one time.")),
      queued_jobs_(SingleGauge(registry, "accel_queued_jobs", "Jobs that wait for ranks.")),
      rpc_duration_(BuildHistogram()
                        .Name("accel_rpc_server_duration_seconds")
                        .Help("Time to answer a unary call.")
                        .Register(*registry)),
      subscribers_(BuildGauge()
                       .Name("accel_stream_subscribers")
                       .Help("Open streams, by kind.")
                       .Register(*registry)),
      records_sent_(BuildCounter()
                        .Name("accel_stream_records_sent_total")
                        .Help("Rows handed to streams since the daemon started, by kind.")
                        .Register(*registry)) {
  BuildGauge()
      .Name("accel_build_info")
      .Help("Version of the daemon; always 1.")
      .Register(*registry)
      .Add({{"version", ACCEL_VERSION}})
      .Set(1);
  // Series that exist from the start: a rate over one that appears with its first event misses it.
  for (int cause = Failure::CAUSE_UNSPECIFIED + 1; cause < Failure::Cause_ARRAYSIZE; ++cause) {
    failures_.Add({{"cause", Failure::Cause_Name(static_cast<Failure::Cause>(cause))}});
  }
  for (const char* const kind : {"metrics", "logs", "events"}) {
    subscribers_.Add({{"kind", kind}});
    records_sent_.Add({{"kind", kind}});
  }
}

void NodeMetrics::OnTransition(Job::State from, Job::State to, Failure::Cause cause) {
  const std::string from_name = from == Job::STATE_UNSPECIFIED ? "NONE" : Job::State_Name(from);
  transitions_.Add({{"from", from_name}, {"to", Job::State_Name(to)}}).Increment();
  if (to == Job::FAILED) failures_.Add({{"cause", Failure::Cause_Name(cause)}}).Increment();
}

void NodeMetrics::SetLoad(const NodeLoad& load, int max_ranks) {
  ranks_in_use_.Set(load.ranks_in_use);
  ranks_limit_.Set(max_ranks);
  queued_jobs_.Set(load.queued_jobs);
  for (int number = Job::STATE_UNSPECIFIED + 1; number < Job::State_ARRAYSIZE; ++number) {
    const auto state = static_cast<Job::State>(number);
    const auto found = load.jobs.find(state);
    jobs_.Add({{"state", Job::State_Name(state)}})
        .Set(found == load.jobs.end() ? 0 : static_cast<double>(found->second));
  }
}

void NodeMetrics::OnUnaryCall(absl::string_view method, absl::StatusCode code,
                              absl::Duration elapsed) {
  rpc_duration_
      .Add({{"method", std::string(method)}, {"code", absl::StatusCodeToString(code)}}, RpcEdges())
      .Observe(absl::ToDoubleSeconds(elapsed));
}

void NodeMetrics::OnSubscriber(absl::string_view kind, int change) {
  subscribers_.Add({{"kind", std::string(kind)}}).Increment(change);
}

void NodeMetrics::OnRecordsSent(absl::string_view kind, int64_t records) {
  records_sent_.Add({{"kind", std::string(kind)}}).Increment(static_cast<double>(records));
}

}  // namespace accel::daemon
