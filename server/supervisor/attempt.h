#ifndef ACCEL_SERVER_SUPERVISOR_ATTEMPT_H_
#define ACCEL_SERVER_SUPERVISOR_ATTEMPT_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/internal/v1/worker.pb.h"
#include "server/supervisor/cut_coordinator.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/failure_judge.h"
#include "server/supervisor/job_record.h"
#include "server/supervisor/out_of_memory.h"
#include "server/supervisor/training_reports.h"
#include "server/supervisor/worker_set.h"

namespace accel::supervisor {

// How patient an attempt is.
struct AttemptOptions {
  // How long after a failure other ranks may still show the first cause.
  absl::Duration settle = absl::Milliseconds(500);
  // How long a worker may take to exit once its channel is closed, before it is killed.
  absl::Duration close_grace = absl::Seconds(2);
  // The same after it has reported Finished.
  absl::Duration exit_grace = absl::Seconds(30);
  // File with the cgroup's out-of-memory counter; empty for none.
  std::filesystem::path memory_events;
};

// One start of a job's workers, from their start until the last one is reaped: hands on what they
// report, finds the first cause when one fails, and ends the others then. For the loop's thread.
class Attempt final : private WorkerObserver {
 public:
  // Starts an attempt's workers, which report to the observer.
  using StartWorkers =
      std::function<absl::StatusOr<std::unique_ptr<WorkerSet>>(WorkerObserver& observer)>;

  // `on_over` is called once, when no worker is left and the record has the attempt's end; it must
  // not destroy the attempt. `loop` and `record` must outlive this.
  Attempt(EventLoop& loop, AttemptOptions options, const accel::internal::v1::JobLaunch& launch,
          int world_size, std::filesystem::path checkpoints, JobRecord& record,
          std::function<void()> on_over);
  ~Attempt() override;

  // Starts the workers of attempt `number`, each with `batch_size`. An error leaves no process and
  // no attempt in the record, and `on_over` is not called.
  absl::Status Start(int number, int batch_size, const StartWorkers& start_workers);

  // Asks the ranks to act at a step that all of them reach.
  void RequestStop() { cuts_.Request(accel::internal::v1::Cut::STOP); }
  void RequestCheckpoint() { cuts_.Request(accel::internal::v1::Cut::CHECKPOINT); }

  // Ends the workers at once. What they do then is no failure.
  void Kill();

  // Whether the workers live and none was seen to fail.
  bool running() const { return phase_ == Phase::kRunning; }
  // Whether what a worker does now is its own doing: the workers are not being ended.
  bool judging() const { return phase_ == Phase::kRunning || phase_ == Phase::kSettling; }
  // Whether no worker is left.
  bool over() const { return phase_ == Phase::kOver; }
  // Whether every rank has done all it was to do.
  bool did_its_work() const { return !judge_.failed() && reports_.did_its_work(); }
  // The first cause; absent where no rank has failed.
  std::optional<accel::v1::Failure> failure() const { return judge_.Verdict(); }
  // Steps that all ranks have done in this attempt.
  int64_t steps_done() const { return reports_.steps_done(); }

 private:
  // In order; kSettling and kEnding may be left out.
  enum class Phase {
    // The workers live.
    kRunning,
    // A rank failed; others may still show the first cause.
    kSettling,
    // The workers are being ended.
    kEnding,
    // No worker is left.
    kOver,
  };

  void OnReport(int rank, const accel::internal::v1::WorkerReport& report) override;
  void OnLine(int rank, accel::v1::LogRecord::Source source, std::string text,
              bool truncated) override;
  void OnChannelEnd(int rank, const absl::Status& status) override;
  void OnExit(int rank, int wait_status) override;
  void OnLost(int rank, const std::string& why) override;

  void OnFailure(int rank, const accel::internal::v1::WorkerFailure& failure);
  void OnFinished(int rank, const accel::internal::v1::Finished& finished);
  void OnLateExit(int rank);
  void KillUnlessExited(int rank);
  // A rank is gone, after the judge has heard of it.
  void AfterEnd();
  void Settle();
  void EndWorkers();
  void Finish();
  // As EventLoop::RunAfter, for as long as this lives.
  void RunAfter(absl::Duration delay, EventLoop::Callback callback);

  EventLoop& loop_;
  const AttemptOptions options_;
  const int world_size_;
  JobRecord& record_;
  const std::function<void()> on_over_;

  Phase phase_ = Phase::kRunning;
  std::vector<EventLoop::TimerId> timers_;
  // Killed because they did not exit after Finished.
  std::set<int> hung_;
  TrainingReports reports_;
  FailureJudge judge_;
  OutOfMemoryCounter out_of_memory_;
  CutCoordinator cuts_;
  std::unique_ptr<WorkerSet> workers_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_ATTEMPT_H_
