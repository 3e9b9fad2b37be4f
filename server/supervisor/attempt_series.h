#ifndef ACCEL_SERVER_SUPERVISOR_ATTEMPT_SERIES_H_
#define ACCEL_SERVER_SUPERVISOR_ATTEMPT_SERIES_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/supervisor/attempt.h"
#include "server/supervisor/batch_size_search.h"
#include "server/supervisor/job_run.h"
#include "server/supervisor/machine_leader.h"
#include "server/supervisor/rendezvous.h"

namespace accel::supervisor {

// A job's attempts, one after the other, led from here: waits for the other machines where there
// are some, starts all ranks, and starts them anew with a smaller batch where the job asks for that
// and one ran out of memory. The job SUCCEEDED when every rank did its work; CANCELLED when it was
// asked to stop before; else it FAILED with the first cause.
class AttemptSeries final : public JobRun {
 public:
  AttemptSeries(const RunContext& context, OnOver on_over);
  ~AttemptSeries() override;

  void Start() override;
  void Stop(absl::Duration grace) override;
  void RequestCheckpoint() override;

 private:
  absl::Status ListenForMachines();
  void StartAttempt();
  absl::StatusOr<std::unique_ptr<WorkerSet>> StartWorkers(int number, WorkerObserver& observer);
  accel::internal::v1::StartAttempt Describe(int number) const;
  void OnAttemptOver();
  void OnStopDeadline();
  void Finish(std::optional<accel::v1::Failure> failure);
  void Fail(accel::v1::Failure::Cause cause, std::string message);

  const RunContext context_;
  const OnOver on_over_;
  const int world_size_;

  bool stop_requested_ = false;
  absl::Duration stop_deadline_ = absl::InfiniteDuration();
  bool over_ = false;
  BatchSizeSearch search_;
  std::unique_ptr<MachineLeader> machines_;
  std::optional<Rendezvous> rendezvous_;
  // The one under way, or the last one.
  std::unique_ptr<Attempt> attempt_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_ATTEMPT_SERIES_H_
