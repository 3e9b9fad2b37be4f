#ifndef ACCEL_SERVER_SUPERVISOR_MACHINE_MEMBER_H_
#define ACCEL_SERVER_SUPERVISOR_MACHINE_MEMBER_H_

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/machine.pb.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/ip_address.h"
#include "server/supervisor/checkpoint_collector.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/job_record.h"
#include "server/supervisor/job_run.h"
#include "server/supervisor/machine_connector.h"
#include "server/supervisor/machine_link.h"
#include "server/supervisor/out_of_memory.h"
#include "server/supervisor/worker_set.h"

namespace accel::supervisor {

// The part of a job of several machines that a machine other than 0 has: runs its ranks as machine
// 0 says, hands on to it what they report, and keeps of the record what concerns this machine:
// states, logs, its ranks' processes, its checkpoints, the outcome. For the loop's thread.
class MachineMember final : public JobRun, private WorkerObserver {
 public:
  // FAILED is also reported where machine 0 is out of reach.
  MachineMember(const RunContext& context, OnOver on_over);
  ~MachineMember() override;

  // Looks for machine 0 for as long as init_process_group_kwargs.timeout.
  void Start() override;
  // Asks machine 0 to; where that does not answer in time, ends this machine's part.
  void Stop(absl::Duration grace) override;
  void RequestCheckpoint() override;

 private:
  void OnReport(int rank, const accel::internal::v1::WorkerReport& report) override;
  void OnLine(int rank, accel::v1::LogRecord::Source source, std::string text,
              bool truncated) override;
  void OnChannelEnd(int rank, const absl::Status& status) override;
  void OnExit(int rank, int wait_status) override;
  void OnLost(int, const std::string&) override {}

  void OnConnected(Fd socket);
  absl::Status OnFrame(absl::string_view frame);
  void StartRanks(accel::internal::v1::StartAttempt attempt);
  // Machine 0 says that the job ends.
  void OnStop(absl::Duration grace);
  void OnAttemptOver(const accel::internal::v1::AttemptOver& over);
  // What of a report concerns this machine's record.
  void Keep(int rank, const accel::internal::v1::WorkerReport& report);
  void Fail(std::string message);
  // Kills what still runs; the outcome is reported once nothing does.
  void End(accel::v1::Job::State state, std::optional<accel::v1::Failure> failure);
  void ReportOutcome();

  const RunContext context_;
  EventLoop& loop_;
  const accel::internal::v1::JobLaunch& launch_;
  JobRecord& record_;
  const OnOver on_over_;
  const int first_rank_;
  const int count_;

  MachineConnector connector_;
  IpAddress local_address_;
  std::unique_ptr<MachineLink> link_;
  std::unique_ptr<WorkerSet> workers_;
  // Attempt whose end is not in the record yet.
  bool attempt_open_ = false;
  std::set<int> ready_;
  std::set<int> finished_;
  std::optional<CheckpointCollector> checkpoints_;
  OutOfMemoryCounter out_of_memory_;
  // Set once the job's end is known.
  accel::v1::Job::State outcome_ = accel::v1::Job::STATE_UNSPECIFIED;
  std::optional<accel::v1::Failure> failure_;
  bool reported_ = false;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_MACHINE_MEMBER_H_
