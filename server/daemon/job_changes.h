#ifndef ACCEL_SERVER_DAEMON_JOB_CHANGES_H_
#define ACCEL_SERVER_DAEMON_JOB_CHANGES_H_

#include <cstdint>
#include <string>

#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/job.pb.h"

namespace accel::daemon {

// Ranks of a job, its default included.
int RanksOf(const accel::v1::Job& job);

// The job with the etag of its contents.
accel::v1::Job WithEtag(accel::v1::Job job);

// Ends a job. No effect on one that has ended.
void SetEnd(accel::v1::Job::State state, int64_t time_us, accel::v1::Job* job);

// Takes over what a supervisor says. No effect on a job that has ended. While `stopping`, every
// state that is not terminal counts as STOPPING, because a supervisor may not have read the request
// yet. `now_us` is the end of a job whose supervisor gives no time.
void MergeStatus(const accel::internal::v1::JobStatus& status, bool stopping, int64_t now_us,
                 accel::v1::Job* job);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_CHANGES_H_
