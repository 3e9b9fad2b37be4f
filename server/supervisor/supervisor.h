#ifndef ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_
#define ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/process.h"
#include "core/record/writer.h"
#include "server/supervisor/attempt.h"
#include "server/supervisor/control_server.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/job_folder.h"
#include "server/supervisor/job_record.h"
#include "server/supervisor/job_run.h"
#include "server/supervisor/tracker_set.h"
#include "server/supervisor/worker_set.h"

namespace accel::supervisor {

// What a supervisor needs from outside.
struct SupervisorOptions {
  // The job's folder; holds launch.pb.
  std::filesystem::path job_dir;
  const Clock* clock = &Clock::Real();
  ProcessLauncher* launcher = &ProcessLauncher::Real();
  AttemptOptions attempt;
  // How long the trackers may take after the job's end.
  absl::Duration tracker_grace = absl::Seconds(10);
  // How long the job's end may take to get into a record that cannot be written.
  absl::Duration record_grace = absl::Minutes(10);
};

// One job from start to end in the loop's thread: its record, the daemon's commands, its trackers,
// and the run of its workers. A job gets exactly one terminal state.
class Supervisor final {
 public:
  // Takes the job's folder, which it locks, opens its record and its control socket.
  // FAILED_PRECONDITION when another supervisor has it or the job has ended; then nothing has been
  // changed. `loop` must outlive the result.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Open(EventLoop& loop,
                                                          const SupervisorOptions& options);

  ~Supervisor();

  // Starts the job's workers. The loop is stopped once the job has ended, its record is durable and
  // the daemon's connections have been told.
  void Start();

  // See JobRun::Stop.
  void Stop(absl::Duration grace);

  // Whether the terminal state is in the record.
  bool ended() const;

 private:
  Supervisor(EventLoop& loop, const SupervisorOptions& options,
             accel::internal::v1::JobLaunch launch, Fd lock, std::unique_ptr<record::Writer> writer,
             accel::internal::v1::JobStatus status);

  RunContext Context();
  void OnCommand(const accel::internal::v1::ToSupervisor& command);
  void OnCommit();

  // The workers are gone; the trackers finish.
  void OnOver(accel::v1::Job::State outcome, const std::optional<accel::v1::Failure>& failure);
  void EndJob(accel::v1::Job::State outcome, const std::optional<accel::v1::Failure>& failure);
  void LeaveWhenTold();

  EventLoop& loop_;
  const SupervisorOptions options_;
  const accel::internal::v1::JobLaunch launch_;
  const Fd lock_;
  const JobFolder folder_;
  // Whether the terminal state was set.
  bool terminal_ = false;

  JobRecord record_;
  std::unique_ptr<ControlServer> control_;
  TrackerSet trackers_;
  std::unique_ptr<JobRun> run_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_
