#include "server/supervisor/worker_set.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::JobLaunch;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::ToWorker;
using accel::v1::Attempt;

constexpr char kStoreHost[] = "127.0.0.1";
constexpr absl::string_view kThreadsVariable = "OMP_NUM_THREADS";

struct StoreSocket {
  Fd socket;
  int port = 0;
};

absl::StatusOr<StoreSocket> ListenForStore() {
  StoreSocket store;
  store.socket.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!store.socket.valid()) return absl::ErrnoToStatus(errno, "cannot make the store's socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = 0;
  inet_pton(AF_INET, kStoreHost, &address.sin_addr);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(store.socket.get(), generic, length) != 0 ||
      listen(store.socket.get(), SOMAXCONN) != 0 ||
      getsockname(store.socket.get(), generic, &length) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", kStoreHost));
  }
  store.port = ntohs(address.sin_port);
  return store;
}

}  // namespace

std::vector<std::string> WorkerEnvironment(
    const google::protobuf::Map<std::string, std::string>& environment, int num_threads,
    int world_size) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(absl::StrCat(name, "=", value));
  if (!environment.contains(std::string(kThreadsVariable))) {
    if (num_threads <= 0) {
      num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world_size);
    }
    variables.push_back(absl::StrCat(kThreadsVariable, "=", num_threads));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

absl::StatusOr<std::unique_ptr<WorkerSet>> WorkerSet::Start(EventLoop& loop,
                                                            ProcessLauncher& launcher,
                                                            const JobLaunch& launch,
                                                            StartAttempt attempt, int world_size,
                                                            WorkerObserver& observer) {
  ACCEL_ASSIGN_OR_RETURN(const StoreSocket store, ListenForStore());
  attempt.set_world_size(world_size);
  attempt.set_store_host(kStoreHost);
  attempt.set_store_port(store.port);
  RankOptions options;
  options.worker_path = launch.worker_path();
  options.environment =
      WorkerEnvironment(launch.worker_environment(),
                        launch.job().spec().loop().num_cpu_threads_per_process(), world_size);
  std::unique_ptr<WorkerSet> workers(new WorkerSet);
  for (int rank = 0; rank < world_size; ++rank) {
    options.rank = rank;
    options.store_listen_fd = rank == 0 ? store.socket.get() : -1;
    ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<RankProcess> process,
                           RankProcess::Start(loop, launcher, options, observer));
    workers->ranks_.push_back(std::move(process));
  }
  for (const auto& process : workers->ranks_) {
    attempt.set_rank(process->rank());
    attempt.set_store_listen_fd(process->rank() == 0 ? RankProcess::kStoreListenFd : -1);
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
