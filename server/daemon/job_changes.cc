#include "server/daemon/job_changes.h"

#include "core/config/job_spec.h"
#include "google/protobuf/util/time_util.h"
#include "server/daemon/job_store.h"
#include "server/daemon/paging.h"
#include "server/daemon/proto_bytes.h"

namespace accel::daemon {

using accel::v1::Failure;
using accel::v1::Job;

int RanksOf(const Job& job) { return config::ProcessesPerMachine(job.spec()); }

Job WithEtag(Job job) {
  job.clear_etag();
  job.set_etag(ShortDigest(DeterministicBytes(job)));
  return job;
}

void SetEnd(Job::State state, int64_t time_us, Job* job) {
  if (IsTerminal(job->state())) return;
  job->set_state(state);
  *job->mutable_end_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(time_us);
}

void MergeStatus(const accel::internal::v1::JobStatus& status, bool stopping, int64_t now_us,
                 Job* job) {
  if (IsTerminal(job->state())) return;
  if (status.has_progress()) *job->mutable_progress() = status.progress();
  if (status.attempts_size() > 0) *job->mutable_attempts() = status.attempts();
  if (status.has_early_stopped()) *job->mutable_early_stopped() = status.early_stopped();
  if (IsTerminal(status.state())) {
    if (status.state() == Job::FAILED) {
      *job->mutable_failure() = status.failure();
      if (job->failure().cause() == Failure::CAUSE_UNSPECIFIED) {
        job->mutable_failure()->set_cause(Failure::INTERNAL);
      }
    }
    SetEnd(status.state(), status.end_time_us() > 0 ? status.end_time_us() : now_us, job);
  } else if (stopping) {
    job->set_state(Job::STOPPING);
  } else if (status.state() == Job::STATE_UNSPECIFIED || status.state() == Job::QUEUED) {
    job->set_state(Job::STARTING);
  } else {
    job->set_state(status.state());
  }
}

}  // namespace accel::daemon
