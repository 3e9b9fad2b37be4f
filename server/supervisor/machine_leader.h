#ifndef ACCEL_SERVER_SUPERVISOR_MACHINE_LEADER_H_
#define ACCEL_SERVER_SUPERVISOR_MACHINE_LEADER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/machine.pb.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"
#include "core/base/ip_address.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/machine_link.h"
#include "server/supervisor/rank_handle.h"

namespace accel::supervisor {

// Machine 0's end of a job of several machines: waits for the others, starts their ranks, and gives
// those out as if they ran here. For the loop's thread.
class MachineLeader {
 public:
  // What comes from the other machines beside their ranks' reports.
  struct Events {
    // Every machine has come.
    std::function<void()> all_came;
    // The job cannot go on: a machine did not come in time, or was lost between two attempts.
    std::function<void(std::string why)> failed;
    std::function<void(absl::Duration grace)> stop_asked;
    std::function<void()> checkpoint_asked;
    // Something the user should know.
    std::function<void(std::string text)> warn;
  };

  // Listens on main_process_ip and main_process_port, and waits for all machines for as long as
  // init_process_group_kwargs.timeout. `loop` and `launch` must outlive the result.
  static absl::StatusOr<std::unique_ptr<MachineLeader>> Listen(
      EventLoop& loop, const accel::internal::v1::JobLaunch& launch, Events events);
  ~MachineLeader();

  const IpAddress& address() const { return address_; }
  bool all_came() const { return waiting_for_ == 0; }

  // Starts the ranks of the other machines, in order, with what is the same for all of them.
  // `observer` learns of them until EndAttempt; the ranks must be gone before this is.
  std::vector<std::unique_ptr<RankHandle>> StartRanks(
      const accel::internal::v1::StartAttempt& attempt, WorkerObserver& observer);

  // All ranks have ended; why, and whether another attempt follows.
  void EndAttempt(const std::optional<accel::v1::Failure>& failure, bool more);

  void TellStop(absl::Duration grace);
  // The job's end; nothing can be sent after it. Calls `told` from the loop once every machine has
  // hung up, which it does when it has read this, or has had a few seconds.
  void TellOutcome(accel::v1::Job::State state, const std::optional<accel::v1::Failure>& failure,
                   std::function<void()> told);

 private:
  class RemoteRank;

  // One of the other machines.
  struct Machine {
    std::unique_ptr<MachineLink> link;
    std::string address;
    EventLoop::TimerId hello_timer = 0;
  };

  MachineLeader(EventLoop& loop, const accel::internal::v1::JobLaunch& launch, Events events,
                IpAddress address, Fd socket);

  void OnConnect();
  absl::Status OnFrame(int connection, absl::string_view frame);
  void OnEnd(int connection, const absl::Status& why);
  // Empty where the machine may take part.
  std::string Objection(const accel::internal::v1::MachineHello& hello) const;
  void Welcome(int connection, const accel::internal::v1::MachineHello& hello);
  void Dispatch(int machine, const accel::internal::v1::FromMachine& message);
  void OnRankEnd(const accel::internal::v1::RankEnd& end);
  // The ranks of `machine` are out of reach.
  void LoseRanks(int machine, const std::string& why);
  void Send(int rank, const accel::internal::v1::ToMachine& message);
  void Broadcast(const accel::internal::v1::ToMachine& message);
  void OnTimeout();
  void OnTold();
  std::string Name(int machine) const;

  EventLoop& loop_;
  const accel::internal::v1::JobLaunch& launch_;
  const Events events_;
  const IpAddress address_;
  const int machines_count_;
  const int ranks_per_machine_;
  Fd socket_;
  // End of the wait for machines, then of the wait for them to hang up.
  EventLoop::TimerId timer_ = 0;
  bool over_ = false;
  std::function<void()> told_;
  int waiting_for_;
  int last_connection_ = 0;
  // Connections that have not said who they are, and ones that were refused.
  std::map<int, Machine> strangers_;
  // Number of the machine by connection.
  std::map<int, int> machine_of_;
  std::map<int, Machine> machines_;
  // Set during an attempt.
  WorkerObserver* observer_ = nullptr;
  std::map<int, RemoteRank*> ranks_;
};

// The job without what differs between its machines.
accel::v1::JobSpec CommonSpec(accel::v1::JobSpec spec);

// Address and port of machine 0, for people.
std::string LeaderName(const accel::v1::MultiNodeSpec& machines);

// init_process_group_kwargs.timeout.
absl::Duration RendezvousTimeout(const accel::internal::v1::JobLaunch& launch);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_MACHINE_LEADER_H_
