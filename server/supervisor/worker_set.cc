#include "server/supervisor/worker_set.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/supervisor/rank_process.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::JobLaunch;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToWorker;
using accel::v1::Attempt;

constexpr absl::string_view kThreadsVariable = "OMP_NUM_THREADS";

}  // namespace

std::vector<std::string> WorkerEnvironment(
    const google::protobuf::Map<std::string, std::string>& environment, int num_threads,
    int local_world_size) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  if (!environment.contains(std::string(kThreadsVariable))) {
    if (num_threads <= 0) {
      num_threads =
          std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / local_world_size);
    }
    variables.push_back(absl::StrCat(kThreadsVariable, "=", num_threads));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

absl::StatusOr<std::unique_ptr<WorkerSet>> WorkerSet::Start(
    EventLoop& loop, ProcessLauncher& launcher, const JobLaunch& launch, StartAttempt attempt,
    int first_rank, int count, int store_listen_fd,
    const std::map<std::string, std::string>& environment, WorkerObserver& observer) {
  auto variables = launch.worker_environment();
  for (const auto& [name, value] : environment) variables[name] = value;
  RankOptions options;
  options.worker_path = launch.worker_path();
  options.environment =
      WorkerEnvironment(variables, launch.job().spec().loop().num_cpu_threads_per_process(), count);
  std::unique_ptr<WorkerSet> workers(new WorkerSet(first_rank));
  for (int rank = first_rank; rank < first_rank + count; ++rank) {
    options.rank = rank;
    options.store_listen_fd = rank == 0 ? store_listen_fd : -1;
    ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<RankProcess> process,
                           RankProcess::Start(loop, launcher, options, observer));
    workers->ranks_.push_back(std::move(process));
  }
  attempt.set_local_world_size(count);
  for (const auto& process : workers->ranks_) {
    attempt.set_rank(process->rank());
    attempt.set_local_rank(process->rank() - first_rank);
    attempt.set_store_listen_fd(
        process->rank() == 0 && store_listen_fd >= 0 ? RankProcess::kStoreListenFd : -1);
    ToWorker message;
    *message.mutable_start() = attempt;
    process->Send(message);
  }
  return workers;
}

int WorkerSet::running() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const auto& process) { return process->running(); }));
}

Attempt WorkerSet::Describe(int number) const {
  Attempt attempt;
  attempt.set_number(number);
  for (const auto& process : ranks_) {
    if (process->pid() == 0) continue;
    Attempt::Worker* worker = attempt.add_workers();
    worker->set_rank(process->rank());
    worker->set_pid(process->pid());
  }
  return attempt;
}

void WorkerSet::Broadcast(const ToWorker& message) {
  for (const auto& process : ranks_) process->Send(message);
}

void WorkerSet::CloseChannels() {
  for (const auto& process : ranks_) process->CloseChannel();
}

void WorkerSet::Kill() {
  for (const auto& process : ranks_) process->Kill();
}

}  // namespace accel::supervisor
