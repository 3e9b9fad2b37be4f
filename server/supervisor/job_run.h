#ifndef ACCEL_SERVER_SUPERVISOR_JOB_RUN_H_
#define ACCEL_SERVER_SUPERVISOR_JOB_RUN_H_

#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/job.pb.h"
#include "core/base/clock.h"
#include "core/base/process.h"
#include "server/supervisor/attempt.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/job_folder.h"
#include "server/supervisor/job_record.h"

namespace accel::supervisor {

// What a run works with. All of it outlives the run.
struct RunContext {
  EventLoop& loop;
  const Clock& clock;
  ProcessLauncher& launcher;
  const accel::internal::v1::JobLaunch& launch;
  const JobFolder& folder;
  const AttemptOptions& attempt;
  JobRecord& record;
};

// This machine's part in a job's training, from its start until no process of it is left: as the
// one that decides (AttemptSeries), or as another one's hands (MachineMember). For the loop's
// thread.
class JobRun {
 public:
  // The terminal state, SUCCEEDED, FAILED or CANCELLED, and the first cause of a failure. Called
  // once, from the loop or from Start; must not destroy the run.
  using OnOver =
      std::function<void(accel::v1::Job::State, const std::optional<accel::v1::Failure>&)>;

  virtual ~JobRun() = default;

  virtual void Start() = 0;

  // Ends the job: in order, after `grace` by force. A shorter grace than that of an earlier call
  // takes its place. No effect on a job that is ending by itself.
  virtual void Stop(absl::Duration grace) = 0;

  // Asks for a checkpoint at the next step that all ranks reach.
  virtual void RequestCheckpoint() = 0;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_JOB_RUN_H_
