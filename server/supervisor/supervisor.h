#ifndef ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_
#define ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/process.h"
#include "core/record/writer.h"
#include "server/supervisor/checkpoint_collector.h"
#include "server/supervisor/control_server.h"
#include "server/supervisor/cut_coordinator.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/failure_judge.h"
#include "server/supervisor/job_record.h"
#include "server/supervisor/out_of_memory.h"
#include "server/supervisor/rank_process.h"
#include "server/supervisor/step_aggregator.h"
#include "server/supervisor/tracker_set.h"
#include "server/supervisor/worker_set.h"

namespace accel::supervisor {

// What a supervisor needs from outside.
struct SupervisorOptions {
  // The job's folder; holds launch.pb.
  std::filesystem::path job_dir;
  const Clock* clock = &Clock::Real();
  ProcessLauncher* launcher = &ProcessLauncher::Real();
  // File with the cgroup's out-of-memory counter; empty for none.
  std::filesystem::path memory_events;

  // How long after a failure other ranks may still show the first cause.
  absl::Duration settle = absl::Milliseconds(500);
  // How long a worker may take to exit once its channel is closed, before it is killed.
  absl::Duration close_grace = absl::Seconds(2);
  // The same after it has reported Finished.
  absl::Duration exit_grace = absl::Seconds(30);
  // How long the trackers may take after the job's end.
  absl::Duration tracker_grace = absl::Seconds(10);
  // How long the job's end may take to get into a record that cannot be written.
  absl::Duration record_grace = absl::Minutes(10);
};

// Runs one job from start to end in the loop's thread: starts the workers, watches them, writes the
// record, obeys the daemon. A job gets exactly one terminal state: FAILED with the first cause when
// a rank fails unasked; CANCELLED when it was asked to stop before it had done its work; else
// SUCCEEDED.
class Supervisor final : private WorkerObserver {
 public:
  // Takes the job's folder, which it locks, opens its record and its control socket.
  // FAILED_PRECONDITION when another supervisor has it or the job has ended; then nothing has been
  // changed. `loop` must outlive the result.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Open(EventLoop& loop,
                                                          const SupervisorOptions& options);

  ~Supervisor() override;

  // Starts the job's workers. The loop is stopped once the job has ended, its record is durable and
  // the daemon's connections have been told.
  void Start();

  // Ends the job: in order, after `grace` by force. A shorter grace than that of an earlier call
  // takes its place. No effect on a job that is ending by itself.
  void Stop(absl::Duration grace);

  // Whether the terminal state is in the record.
  bool ended() const;

 private:
  // Parts of the job's life, in order; kSettling and kEnding may be left out.
  enum class Phase {
    // The workers live.
    kRunning,
    // A rank failed; others may still show the first cause.
    kSettling,
    // The workers are being ended.
    kEnding,
    // No worker is left; the trackers finish.
    kFinishing,
    // The terminal state was set.
    kEnded,
  };

  // What is known of a rank.
  struct Rank {
    bool ready = false;
    std::optional<accel::internal::v1::Finished> finished;
    // Last step done.
    int64_t step = 0;
    // Killed because it did not exit after Finished.
    bool hung = false;
  };

  Supervisor(EventLoop& loop, const SupervisorOptions& options,
             accel::internal::v1::JobLaunch launch, Fd lock, std::unique_ptr<record::Writer> writer,
             accel::internal::v1::JobStatus status);

  absl::StatusOr<std::unique_ptr<WorkerSet>> StartWorkers(int attempt);
  void OnCommand(const accel::internal::v1::ToSupervisor& command);
  void RequestCheckpoint();
  void OnCommit();

  void OnReport(int rank, const accel::internal::v1::WorkerReport& report) override;
  void OnLine(int rank, accel::v1::LogRecord::Source source, std::string text,
              bool truncated) override;
  void OnChannelEnd(int rank, const absl::Status& status) override;
  void OnExit(int rank, int wait_status) override;

  void OnReady(int rank, const accel::internal::v1::Ready& ready);
  void OnStep(int rank, const accel::internal::v1::StepReport& report);
  void OnMetrics(const accel::internal::v1::MetricReport& report);
  void OnFailure(int rank, const accel::internal::v1::WorkerFailure& failure);
  void OnFinished(int rank, const accel::internal::v1::Finished& finished);
  void AddCheckpoint(const WrittenCheckpoint& written);
  // Last step that a rank has begun, as far as it has said.
  int64_t StepBegun(int rank) const;
  void KillUnlessExited(int rank);

  void Settle();
  void EndWorkers();
  void FinishJob();
  bool DidItsWork() const;
  void EndJob();
  void LeaveWhenTold();
  // A line in the job's logs.
  void Note(std::string text);

  EventLoop& loop_;
  const SupervisorOptions options_;
  const accel::internal::v1::JobLaunch launch_;
  const Fd lock_;
  const int world_size_;

  Phase phase_ = Phase::kRunning;
  std::vector<Rank> ranks_;
  int64_t total_steps_ = 0;
  bool stop_requested_ = false;
  absl::Duration stop_deadline_ = absl::InfiniteDuration();
  // Why the workers could not be started.
  std::optional<accel::v1::Failure> start_failure_;
  accel::v1::Job::State outcome_ = accel::v1::Job::STATE_UNSPECIFIED;

  JobRecord record_;
  std::unique_ptr<ControlServer> control_;
  TrackerSet trackers_;
  StepAggregator steps_;
  CheckpointCollector checkpoints_;
  FailureJudge judge_;
  OutOfMemoryCounter out_of_memory_;
  CutCoordinator cuts_;
  std::unique_ptr<WorkerSet> workers_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_SUPERVISOR_H_
