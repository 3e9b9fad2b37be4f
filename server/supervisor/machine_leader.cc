#include "server/supervisor/machine_leader.h"

#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/supervisor/rendezvous.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {

using accel::internal::v1::FromMachine;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::MachineHello;
using accel::internal::v1::RankEnd;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToMachine;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerReport;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::JobSpec;

namespace {

// Connections that may be open without having said who they are.
constexpr size_t kMaxStrangers = 64;
// How long a connection may take to say who it is.
constexpr absl::Duration kHelloGrace = absl::Seconds(10);
// How long a machine may take to read the job's end.
constexpr absl::Duration kOutcomeGrace = absl::Seconds(3);

}  // namespace

// A rank of another machine.
class MachineLeader::RemoteRank final : public RankHandle {
 public:
  RemoteRank(MachineLeader& leader, int rank) : leader_(leader), rank_(rank) {
    leader_.ranks_[rank_] = this;
  }
  ~RemoteRank() override { leader_.ranks_.erase(rank_); }

  int rank() const override { return rank_; }
  int64_t pid() const override { return 0; }
  bool running() const override { return running_; }
  bool saw_out_of_memory() const override { return saw_out_of_memory_; }

  void Send(const ToWorker& message) override {
    ToMachine to_machine;
    to_machine.mutable_rank_message()->set_rank(rank_);
    *to_machine.mutable_rank_message()->mutable_message() = message;
    leader_.Send(rank_, to_machine);
  }
  void CloseChannel() override { End(/*kill=*/false); }
  void Kill() override { End(/*kill=*/true); }

  void SetEnded(bool saw_out_of_memory) {
    running_ = false;
    saw_out_of_memory_ = saw_out_of_memory;
  }

 private:
  void End(bool kill) {
    if (!running_) return;
    ToMachine to_machine;
    to_machine.mutable_end_rank()->set_rank(rank_);
    to_machine.mutable_end_rank()->set_kill(kill);
    leader_.Send(rank_, to_machine);
  }

  MachineLeader& leader_;
  const int rank_;
  bool running_ = true;
  bool saw_out_of_memory_ = false;
};

absl::StatusOr<std::unique_ptr<MachineLeader>> MachineLeader::Listen(EventLoop& loop,
                                                                     const JobLaunch& launch,
                                                                     Events events) {
  const auto& machines = launch.job().spec().multi_node();
  ACCEL_ASSIGN_OR_RETURN(const IpAddress address, IpAddress::Parse(machines.main_process_ip()));
  ACCEL_ASSIGN_OR_RETURN(ListeningSocket listening,
                         ListenOn(address, machines.main_process_port()));
  return std::unique_ptr<MachineLeader>(
      new MachineLeader(loop, launch, std::move(events), address, std::move(listening.socket)));
}

MachineLeader::MachineLeader(EventLoop& loop, const JobLaunch& launch, Events events,
                             IpAddress address, Fd socket)
    : loop_(loop),
      launch_(launch),
      events_(std::move(events)),
      address_(address),
      machines_count_(config::NumMachines(launch.job().spec())),
      ranks_per_machine_(config::ProcessesPerMachine(launch.job().spec())),
      socket_(std::move(socket)),
      waiting_for_(machines_count_ - 1) {
  loop_.Watch(socket_.get(), POLLIN, [this](short) { OnConnect(); });
  timer_ = loop_.RunAfter(RendezvousTimeout(launch), [this] { OnTimeout(); });
}

MachineLeader::~MachineLeader() {
  loop_.Unwatch(socket_.get());
  loop_.Cancel(timer_);
  for (const auto& [connection, stranger] : strangers_) loop_.Cancel(stranger.hello_timer);
}

void MachineLeader::OnConnect() {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  Fd accepted(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&name), &length, SOCK_CLOEXEC));
  if (!accepted.valid()) return;
  const auto address = IpAddress::FromSockaddr(name);
  if (!address.ok() || !RendezvousAllowed(*address, {launch_.rendezvous_networks().begin(),
                                                     launch_.rendezvous_networks().end()})) {
    return events_.warn(absl::StrCat("refused a connection from ",
                                     address.ok() ? address->ToString() : "an unknown address",
                                     ", which is in no --rendezvous_network"));
  }
  if (strangers_.size() >= kMaxStrangers) {
    spdlog::warn("more than {} unknown machines, refused one", kMaxStrangers);
    return;
  }
  const int connection = ++last_connection_;
  Machine& stranger = strangers_[connection];
  stranger.address = address->ToString();
  stranger.hello_timer =
      loop_.RunAfter(kHelloGrace, [this, connection] { strangers_.erase(connection); });
  stranger.link = std::make_unique<MachineLink>(
      loop_, std::move(accepted),
      [this, connection](absl::string_view frame) { return OnFrame(connection, frame); },
      [this, connection](const absl::Status& why) { OnEnd(connection, why); });
}

absl::Status MachineLeader::OnFrame(int connection, absl::string_view frame) {
  FromMachine message;
  if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
    return absl::DataLossError("not a message of a machine");
  }
  if (const auto machine = machine_of_.find(connection); machine != machine_of_.end()) {
    Dispatch(machine->second, message);
    return absl::OkStatus();
  }
  if (!message.has_hello()) return absl::DataLossError("first message is no hello");
  const std::string objection = Objection(message.hello());
  if (objection.empty()) {
    Welcome(connection, message.hello());
    return absl::OkStatus();
  }
  const Machine& stranger = strangers_.at(connection);
  events_.warn(absl::StrCat("refused a machine at ", stranger.address, ": ", objection));
  ToMachine refusal;
  refusal.mutable_refusal()->set_message(objection);
  stranger.link->Send(refusal);
  stranger.link->Close();
  return absl::OkStatus();
}

std::string MachineLeader::Objection(const MachineHello& hello) const {
  const int machine = hello.machine_rank();
  if (machine < 1 || machine >= machines_count_) {
    return absl::StrCat("its machine_rank is ", machine, ", allowed are 1 to ",
                        machines_count_ - 1);
  }
  if (machines_.count(machine) > 0) return absl::StrCat(Name(machine), " is here already");
  if (hello.version() != ACCEL_VERSION) {
    return absl::StrCat("its version is ", hello.version(), ", machine 0's is ", ACCEL_VERSION);
  }
  JobSpec theirs;
  if (!google::protobuf::util::JsonStringToMessage(hello.job(), &theirs).ok()) {
    return "its job cannot be read";
  }
  google::protobuf::util::MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  if (differencer.Compare(CommonSpec(launch_.job().spec()), theirs)) return "";
  return absl::StrCat("its job is another: ", differences.substr(0, differences.find('\n')));
}

void MachineLeader::Welcome(int connection, const MachineHello& hello) {
  loop_.Cancel(strangers_.at(connection).hello_timer);
  machine_of_[connection] = hello.machine_rank();
  machines_[hello.machine_rank()] = std::move(strangers_.at(connection));
  strangers_.erase(connection);
  spdlog::info("{} has come", Name(hello.machine_rank()));
  if (--waiting_for_ > 0) return;
  loop_.Cancel(timer_);
  // Not within the link's call: the first attempt may fail at once.
  loop_.RunAfter(absl::ZeroDuration(), [this] {
    if (!over_) events_.all_came();
  });
}

void MachineLeader::Dispatch(int machine, const FromMachine& message) {
  switch (message.message_case()) {
    case FromMachine::kReport:
      if (observer_ != nullptr && ranks_.count(message.report().rank()) > 0) {
        observer_->OnReport(message.report().rank(), message.report().report());
      }
      return;
    case FromMachine::kEnd:
      return OnRankEnd(message.end());
    case FromMachine::kStop:
      return events_.stop_asked(absl::Seconds(message.stop().grace_seconds()));
    case FromMachine::kCheckpoint:
      return events_.checkpoint_asked();
    case FromMachine::kStartFailure:
      return LoseRanks(machine, absl::StrCat(Name(machine), " cannot start its ranks: ",
                                             message.start_failure().message()));
    default:
      spdlog::warn("{} sent a message that this version does not know", Name(machine));
  }
}

void MachineLeader::OnRankEnd(const RankEnd& end) {
  const auto rank = ranks_.find(end.rank());
  if (observer_ == nullptr || rank == ranks_.end() || !rank->second->running()) return;
  rank->second->SetEnded(end.out_of_memory());
  observer_->OnExit(end.rank(), end.wait_status());
}

void MachineLeader::OnEnd(int connection, const absl::Status& why) {
  if (const auto stranger = strangers_.find(connection); stranger != strangers_.end()) {
    loop_.Cancel(stranger->second.hello_timer);
    strangers_.erase(stranger);
    return;
  }
  const auto found = machine_of_.find(connection);
  if (found == machine_of_.end()) return;
  const int machine = found->second;
  const std::string text = absl::StrCat(
      Name(machine),
      " was lost: ", absl::IsOutOfRange(why) ? "it closed the connection" : why.message());
  machine_of_.erase(found);
  machines_.erase(machine);
  if (told_ != nullptr && machines_.empty()) return OnTold();
  if (over_) return;
  if (observer_ != nullptr) return LoseRanks(machine, text);
  if (!all_came()) {
    ++waiting_for_;
    return events_.warn(text);
  }
  over_ = true;
  events_.failed(text);
}

void MachineLeader::LoseRanks(int machine, const std::string& why) {
  for (int i = 0; i < ranks_per_machine_ && observer_ != nullptr; ++i) {
    const auto rank = ranks_.find(machine * ranks_per_machine_ + i);
    if (rank == ranks_.end() || !rank->second->running()) continue;
    rank->second->SetEnded(/*saw_out_of_memory=*/false);
    observer_->OnLost(rank->first, why);
  }
}

std::vector<std::unique_ptr<RankHandle>> MachineLeader::StartRanks(const StartAttempt& attempt,
                                                                   WorkerObserver& observer) {
  observer_ = &observer;
  ToMachine message;
  *message.mutable_start()->mutable_attempt() = attempt;
  Broadcast(message);
  std::vector<std::unique_ptr<RankHandle>> ranks;
  for (int rank = ranks_per_machine_; rank < ranks_per_machine_ * machines_count_; ++rank) {
    ranks.push_back(std::make_unique<RemoteRank>(*this, rank));
  }
  return ranks;
}

void MachineLeader::EndAttempt(const std::optional<Failure>& failure, bool more) {
  observer_ = nullptr;
  ToMachine message;
  if (failure.has_value()) *message.mutable_attempt_over()->mutable_failure() = *failure;
  message.mutable_attempt_over()->set_more(more);
  Broadcast(message);
}

void MachineLeader::TellStop(absl::Duration grace) {
  ToMachine message;
  message.mutable_stop()->set_grace_seconds(absl::ToDoubleSeconds(grace));
  Broadcast(message);
}

void MachineLeader::TellOutcome(Job::State state, const std::optional<Failure>& failure,
                                std::function<void()> told) {
  over_ = true;
  told_ = std::move(told);
  loop_.Cancel(timer_);
  timer_ = loop_.RunAfter(machines_.empty() ? absl::ZeroDuration() : kOutcomeGrace,
                          [this] { OnTold(); });
  ToMachine message;
  message.mutable_outcome()->set_state(state);
  if (failure.has_value()) *message.mutable_outcome()->mutable_failure() = *failure;
  Broadcast(message);
  for (const auto& [number, machine] : machines_) machine.link->Close();
}

void MachineLeader::Send(int rank, const ToMachine& message) {
  const auto machine = machines_.find(rank / ranks_per_machine_);
  if (machine != machines_.end()) machine->second.link->Send(message);
}

void MachineLeader::Broadcast(const ToMachine& message) {
  for (const auto& [number, machine] : machines_) machine.link->Send(message);
}

void MachineLeader::OnTold() {
  loop_.Cancel(timer_);
  if (const auto told = std::exchange(told_, nullptr); told != nullptr) told();
}

void MachineLeader::OnTimeout() {
  std::vector<int> missing;
  for (int machine = 1; machine < machines_count_; ++machine) {
    if (machines_.count(machine) == 0) missing.push_back(machine);
  }
  over_ = true;
  events_.failed(absl::StrCat(missing.size() == 1 ? "machine " : "machines ",
                              absl::StrJoin(missing, ", "), " of ", machines_count_,
                              " did not come to ", LeaderName(launch_.job().spec().multi_node()),
                              " within ", absl::FormatDuration(RendezvousTimeout(launch_)),
                              ", init_process_group_kwargs.timeout"));
}

std::string MachineLeader::Name(int machine) const {
  const auto found = machines_.find(machine);
  if (found == machines_.end()) return absl::StrCat("machine ", machine);
  return absl::StrCat("machine ", machine, " at ", found->second.address);
}

JobSpec CommonSpec(JobSpec spec) {
  spec.mutable_multi_node()->clear_machine_rank();
  spec.clear_display_name();
  spec.clear_labels();
  spec.clear_tracking();
  spec.clear_resume_from();
  return spec;
}

std::string LeaderName(const accel::v1::MultiNodeSpec& machines) {
  return absl::StrCat(machines.main_process_ip(), " port ", machines.main_process_port());
}

absl::Duration RendezvousTimeout(const JobLaunch& launch) {
  const auto& timeout = launch.job().resolved_accelerator().init_process_group_kwargs().timeout();
  return absl::Seconds(timeout.seconds()) + absl::Nanoseconds(timeout.nanos());
}

}  // namespace accel::supervisor
