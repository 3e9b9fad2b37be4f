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
#include "server/supervisor/job_record.h"
#include "server/supervisor/rank_process.h"
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

// Runs one job from start to end in the loop's thread: starts the workers, watches them, writes the
// record, obeys the daemon. A job gets exactly one terminal state: FAILED with the first cause when
// a rank fails unasked; CANCELLED when it was asked to stop before it had done its work; else
// SUCCEEDED.
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

  // Ends the job: in order, after `grace` by force. A shorter grace than that of an earlier call
  // takes its place. No effect on a job that is ending by itself.
  void Stop(absl::Duration grace);

  // Whether the terminal state is in the record.
  bool ended() const;

 private:
  Supervisor(EventLoop& loop, const SupervisorOptions& options,
             accel::internal::v1::JobLaunch launch, Fd lock, std::unique_ptr<record::Writer> writer,
             accel::internal::v1::JobStatus status);

  void StartAttempt();
  absl::StatusOr<std::unique_ptr<WorkerSet>> StartWorkers(int attempt, WorkerObserver& observer);
  void OnCommand(const accel::internal::v1::ToSupervisor& command);
  void RequestCheckpoint();
  void KillWorkers();
  void OnCommit();

  // The workers are gone; the trackers finish. `failure` is kept for a job that FAILED.
  void FinishJob(std::optional<accel::v1::Failure> failure);
  void EndJob();
  void LeaveWhenTold();
  // A line in the job's logs.
  void Note(std::string text);

  EventLoop& loop_;
  const SupervisorOptions options_;
  const accel::internal::v1::JobLaunch launch_;
  const Fd lock_;
  const int world_size_;

  bool stop_requested_ = false;
  absl::Duration stop_deadline_ = absl::InfiniteDuration();
  // Set once the workers are gone for good.
  accel::v1::Job::State outcome_ = accel::v1::Job::STATE_UNSPECIFIED;
  std::optional<accel::v1::Failure> failure_;
  // Whether the terminal state was set.
  bool terminal_ = false;

  JobRecord record_;
  std::unique_ptr<ControlServer> control_;
  TrackerSet trackers_;
  std::unique_ptr<Attempt> attempt_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_
