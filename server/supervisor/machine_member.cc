#include "server/supervisor/machine_member.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"
#include "google/protobuf/util/json_util.h"
#include "server/supervisor/machine_leader.h"
#include "server/supervisor/rendezvous.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {

using accel::internal::v1::AttemptOver;
using accel::internal::v1::FromMachine;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToMachine;
using accel::internal::v1::WorkerReport;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using accel::v1::Progress;

namespace {

// How much later than the workers' end by force machine 0's word of it may come.
constexpr absl::Duration kLeaderGrace = absl::Seconds(5);

Failure MachineFailure(std::string message) {
  Failure failure;
  failure.set_cause(Failure::MACHINE);
  failure.set_message(std::move(message));
  return failure;
}

absl::StatusOr<IpAddress> LocalAddress(int socket) {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read a socket's address");
  }
  return IpAddress::FromSockaddr(name);
}

}  // namespace

MachineMember::MachineMember(const RunContext& context, OnOver on_over)
    : context_(context),
      loop_(context.loop),
      launch_(context.launch),
      record_(context.record),
      on_over_(std::move(on_over)),
      first_rank_(launch_.job().spec().multi_node().machine_rank() *
                  config::ProcessesPerMachine(launch_.job().spec())),
      count_(config::ProcessesPerMachine(launch_.job().spec())),
      connector_(context.loop),
      out_of_memory_(context.attempt.memory_events) {}

MachineMember::~MachineMember() = default;

void MachineMember::Start() {
  const auto& machines = launch_.job().spec().multi_node();
  record_.AddWarning("multi_node",
                     absl::StrCat("metrics and the whole job's failure are kept by the job of "
                                  "machine 0, at ",
                                  LeaderName(machines)));
  const auto address = IpAddress::Parse(machines.main_process_ip());
  if (!address.ok()) return Fail(std::string(address.status().message()));
  connector_.Start(
      *address, machines.main_process_port(), RendezvousTimeout(launch_),
      [this](Fd socket) { OnConnected(std::move(socket)); },
      [this](const std::string& why) {
        Fail(absl::StrCat("machine 0 was not found at ",
                          LeaderName(launch_.job().spec().multi_node()), " within ",
                          absl::FormatDuration(RendezvousTimeout(launch_)),
                          ", init_process_group_kwargs.timeout: ", why));
      });
}

void MachineMember::OnConnected(Fd socket) {
  const auto local = LocalAddress(socket.get());
  if (!local.ok()) return Fail(std::string(local.status().message()));
  if (!RendezvousAllowed(
          *local, {launch_.rendezvous_networks().begin(), launch_.rendezvous_networks().end()})) {
    return Fail(absl::StrCat("this machine reaches machine 0 from ", local->ToString(),
                             ", which is in no --rendezvous_network of its operator"));
  }
  local_address_ = *local;
  link_ = std::make_unique<MachineLink>(
      loop_, std::move(socket), [this](absl::string_view frame) { return OnFrame(frame); },
      [this](const absl::Status& why) {
        Fail(absl::StrCat(
            "machine 0 at ", LeaderName(launch_.job().spec().multi_node()),
            " was lost: ", absl::IsOutOfRange(why) ? "it closed the connection" : why.message()));
      });
  FromMachine message;
  auto* hello = message.mutable_hello();
  hello->set_machine_rank(launch_.job().spec().multi_node().machine_rank());
  hello->set_version(ACCEL_VERSION);
  const auto written = google::protobuf::util::MessageToJsonString(CommonSpec(launch_.job().spec()),
                                                                   hello->mutable_job());
  if (!written.ok()) return Fail(written.ToString());
  link_->Send(message);
}

absl::Status MachineMember::OnFrame(absl::string_view frame) {
  ToMachine message;
  if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
    return absl::DataLossError("not a message of machine 0");
  }
  const auto has = [this](int rank) { return workers_ != nullptr && workers_->Has(rank); };
  switch (message.message_case()) {
    case ToMachine::kStart:
      StartRanks(message.start().attempt());
      break;
    case ToMachine::kRankMessage:
      if (!has(message.rank_message().rank())) break;
      workers_->rank(message.rank_message().rank()).Send(message.rank_message().message());
      break;
    case ToMachine::kEndRank:
      if (!has(message.end_rank().rank())) break;
      if (message.end_rank().kill()) {
        workers_->rank(message.end_rank().rank()).Kill();
      } else {
        workers_->rank(message.end_rank().rank()).CloseChannel();
      }
      break;
    case ToMachine::kStop:
      OnStop(absl::Seconds(message.stop().grace_seconds()));
      break;
    case ToMachine::kAttemptOver:
      OnAttemptOver(message.attempt_over());
      break;
    case ToMachine::kOutcome:
      End(message.outcome().state(), message.outcome().has_failure()
                                         ? std::optional(message.outcome().failure())
                                         : std::nullopt);
      break;
    case ToMachine::kRefusal:
      Fail(absl::StrCat("machine 0 at ", LeaderName(launch_.job().spec().multi_node()),
                        " refused this machine: ", message.refusal().message()));
      break;
    case ToMachine::MESSAGE_NOT_SET:
      spdlog::warn("machine 0 sent a message that this version does not know");
  }
  return absl::OkStatus();
}

void MachineMember::StartRanks(StartAttempt attempt) {
  attempt.set_job_name(launch_.job().name());
  *attempt.mutable_data_roots() = launch_.data_roots();
  attempt.set_checkpoints_dir(context_.folder.checkpoints().string());
  attempt.set_resume_dir(launch_.resume_dir());
  attempt.set_local_address(local_address_.ToString());
  attempt.set_store_file(RendezvousFile(launch_).string());
  ready_.clear();
  finished_.clear();
  checkpoints_.emplace(count_, launch_.job().name(), context_.folder.checkpoints());
  // What is left of the attempt before is over.
  workers_.reset();
  auto workers = WorkerSet::Start(
      loop_, context_.launcher, launch_, attempt, first_rank_, count_, /*store_listen_fd=*/-1,
      RendezvousEnvironment(launch_, attempt.store_host(), attempt.store_port()), *this);
  if (!workers.ok()) {
    FromMachine message;
    message.mutable_start_failure()->set_message(std::string(workers.status().message()));
    return link_->Send(message);
  }
  workers_ = *std::move(workers);
  accel::v1::Attempt described = workers_->Describe(attempt.attempt());
  described.set_batch_size(attempt.spec().data().batch_size());
  record_.BeginAttempt(described);
  record_.Commit();
  attempt_open_ = true;
}

void MachineMember::OnReport(int rank, const WorkerReport& report) {
  Keep(rank, report);
  if (link_ == nullptr) return;
  FromMachine message;
  message.mutable_report()->set_rank(rank);
  *message.mutable_report()->mutable_report() = report;
  link_->Send(message);
}

void MachineMember::Keep(int rank, const WorkerReport& report) {
  if (report.has_ready()) {
    ready_.insert(rank);
    if (static_cast<int>(ready_.size()) < count_) return;
    Progress progress;
    progress.set_step(report.ready().first_step());
    progress.set_total_steps(report.ready().total_steps());
    progress.set_total_epochs(report.ready().total_epochs());
    record_.BeginTraining(progress);
    if (record_.state() == Job::STARTING) record_.ChangeState(Job::RUNNING);
  } else if (report.has_step() && rank == first_rank_) {
    record_.SetProgress(report.step().step(), report.step().epoch());
  } else if (report.has_finished()) {
    finished_.insert(rank);
    if (static_cast<int>(finished_.size()) == count_) record_.SetFinished(report.finished());
  } else if (report.has_checkpoint()) {
    const auto written = checkpoints_->Add(rank - first_rank_, report.checkpoint());
    if (!written.has_value()) return;
    record_.AddCheckpoint(written->checkpoint, written->stall_seconds);
    for (const std::string& name : written->removed) record_.RemoveCheckpoint(name);
  } else if (report.has_warning()) {
    record_.AddWarning(report.warning().subject(), report.warning().message());
  }
}

void MachineMember::OnLine(int rank, LogRecord::Source source, std::string text, bool truncated) {
  record_.AddLine(rank, source, std::move(text), truncated);
}

void MachineMember::OnChannelEnd(int rank, const absl::Status& status) {
  // Otherwise it is on its way out; OnExit tells how.
  if (!absl::IsDataLoss(status)) return;
  WorkerReport report;
  report.mutable_failure()->set_cause(Failure::INTERNAL);
  report.mutable_failure()->set_message(
      absl::StrCat("it sent a malformed message: ", status.message()));
  OnReport(rank, report);
}

void MachineMember::OnExit(int rank, int wait_status) {
  spdlog::info("rank {} {}", rank, DescribeWaitStatus(wait_status));
  if (link_ != nullptr) {
    FromMachine message;
    message.mutable_end()->set_rank(rank);
    message.mutable_end()->set_wait_status(wait_status);
    message.mutable_end()->set_out_of_memory(
        WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL && out_of_memory_.HasRisen());
    link_->Send(message);
  }
  if (outcome_ != Job::STATE_UNSPECIFIED && workers_->running() == 0) ReportOutcome();
}

void MachineMember::Stop(absl::Duration grace) {
  if (outcome_ != Job::STATE_UNSPECIFIED) return;
  if (link_ == nullptr) return End(Job::CANCELLED, std::nullopt);
  FromMachine message;
  message.mutable_stop()->set_grace_seconds(absl::ToDoubleSeconds(grace));
  link_->Send(message);
  loop_.RunAfter(grace + kLeaderGrace, [this] { End(Job::CANCELLED, std::nullopt); });
}

void MachineMember::RequestCheckpoint() {
  if (link_ == nullptr) return record_.Note("asked for a checkpoint: the job does not train");
  FromMachine message;
  message.mutable_checkpoint();
  link_->Send(message);
}

void MachineMember::OnStop(absl::Duration grace) {
  if (record_.state() == Job::STOPPING || outcome_ != Job::STATE_UNSPECIFIED) return;
  record_.Note(absl::StrCat("the job was asked to stop within ", absl::FormatDuration(grace)));
  record_.ChangeState(Job::STOPPING);
}

void MachineMember::OnAttemptOver(const AttemptOver& over) {
  if (!std::exchange(attempt_open_, false)) return;
  record_.EndAttempt(over.has_failure() ? std::optional(over.failure()) : std::nullopt);
}

void MachineMember::Fail(std::string message) { End(Job::FAILED, MachineFailure(message)); }

void MachineMember::End(Job::State state, std::optional<Failure> failure) {
  if (outcome_ != Job::STATE_UNSPECIFIED) return;
  outcome_ = state;
  failure_ = std::move(failure);
  connector_.Stop();
  if (workers_ != nullptr && workers_->running() > 0) return workers_->Kill();
  // Not within the call of a link or of Start.
  loop_.RunAfter(absl::ZeroDuration(), [this] { ReportOutcome(); });
}

void MachineMember::ReportOutcome() {
  if (std::exchange(reported_, true)) return;
  if (std::exchange(attempt_open_, false)) record_.EndAttempt(failure_);
  link_.reset();
  on_over_(outcome_, failure_);
}

}  // namespace accel::supervisor
