#include "server/daemon/supervisor_handle.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/record/reader.h"
#include "server/daemon/job_store.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {
namespace {

using accel::internal::v1::FromSupervisor;
using accel::internal::v1::ToSupervisor;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(5);
constexpr absl::Duration kLongestRetry = absl::Milliseconds(200);

// Through /proc, so that the length of the folder's path does not matter (a socket's address holds
// 107 bytes).
absl::StatusOr<Fd> ConnectTo(const JobFolder& folder) {
  Fd directory(open(folder.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return ErrnoStatus("cannot open", folder.path, errno);
  Fd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.valid()) return ErrnoStatus("cannot make a socket for", folder.path, errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory.get(),
                kControlSocket);
  if (connect(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus("cannot connect to", folder.path / kControlSocket, errno);
  }
  return socket_fd;
}

ToSupervisor StopMessage(double grace_seconds) {
  ToSupervisor message;
  message.mutable_stop()->set_grace_seconds(grace_seconds);
  return message;
}

}  // namespace

SupervisorHandle::SupervisorHandle(std::string job_id, JobFolder folder, SupervisorProcess process,
                                   Owner* owner, const SupervisorPatience& patience)
    : job_id_(std::move(job_id)),
      folder_(std::move(folder)),
      process_(std::move(process)),
      owner_(owner),
      patience_(patience),
      wakeup_(eventfd(0, EFD_CLOEXEC)),
      thread_(&SupervisorHandle::Run, this) {}

SupervisorHandle::~SupervisorHandle() {
  Detach();
  if (thread_.joinable()) thread_.join();
}

void SupervisorHandle::Stop(double grace_seconds) {
  std::shared_ptr<MessageChannel> channel;
  {
    absl::MutexLock lock(&mutex_);
    stop_grace_ = grace_seconds;
    channel = channel_;
  }
  // Not delivered: the thread sees the channel's end and sends it on the next one.
  if (channel != nullptr) channel->Send(StopMessage(grace_seconds)).IgnoreError();
}

absl::Status SupervisorHandle::RequestCheckpoint() {
  std::shared_ptr<MessageChannel> channel;
  {
    absl::MutexLock lock(&mutex_);
    channel = channel_;
  }
  if (channel == nullptr) return absl::UnavailableError("the job's supervisor does not listen");
  ToSupervisor message;
  message.mutable_checkpoint();
  return channel->Send(message);
}

void SupervisorHandle::KillAndJoin() {
  if (process_.pidfd.valid()) {
    SendKill();
  } else {
    Detach();
  }
  thread_.join();
}

void SupervisorHandle::SendKill() {
  syscall(SYS_pidfd_send_signal, process_.pidfd.get(), SIGKILL, nullptr, 0);
}

void SupervisorHandle::Detach() {
  absl::MutexLock lock(&mutex_);
  detached_ = true;
  if (channel_ != nullptr) channel_->Shutdown();
  eventfd_write(wakeup_.get(), 1);
}

bool SupervisorHandle::detached() {
  absl::MutexLock lock(&mutex_);
  return detached_;
}

void SupervisorHandle::Settle() {
  absl::MutexLock lock(&mutex_);
  settled_ = true;
}

bool SupervisorHandle::AwaitSettled(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&settled_), timeout);
}

void SupervisorHandle::Run() {
  while (!terminal_seen_) {
    const std::shared_ptr<MessageChannel> channel = Connect();
    if (channel == nullptr) break;
    Serve(channel);
    // Keeps a supervisor that closes every connection at once from being asked without a pause.
    if (!terminal_seen_ && WaitFor(kFirstRetry) == Wait::kDetached) break;
  }
  if (!detached()) {
    const SupervisorEnd end = AwaitEnd();
    if (!detached()) owner_->OnSupervisorEnd(job_id_, end);
  }
  Settle();
}

std::shared_ptr<MessageChannel> SupervisorHandle::Connect() {
  const Clock& clock = Clock::Real();
  const absl::Duration patience =
      process_.pidfd.valid() ? patience_.connect : patience_.connect_unknown;
  const absl::Duration deadline = clock.Monotonic() + patience;
  absl::Duration retry = kFirstRetry;
  bool process_ended = false;
  while (true) {
    absl::StatusOr<Fd> socket_fd = ConnectTo(folder_);
    if (socket_fd.ok()) {
      auto channel = std::make_shared<MessageChannel>(*std::move(socket_fd));
      absl::MutexLock lock(&mutex_);
      if (detached_) return nullptr;
      channel_ = channel;
      return channel;
    }
    if (process_ended || clock.Monotonic() >= deadline) {
      spdlog::warn("job {}: supervisor cannot be reached: {}", job_id_,
                   std::string(socket_fd.status().message()));
      return nullptr;
    }
    switch (WaitFor(retry)) {
      case Wait::kDetached:
        return nullptr;
      case Wait::kProcessEnded:
        process_ended = true;
        break;
      case Wait::kTimeout:
        retry = std::min(2 * retry, kLongestRetry);
    }
  }
}

void SupervisorHandle::Serve(const std::shared_ptr<MessageChannel>& channel) {
  std::optional<double> stop_grace;
  {
    absl::MutexLock lock(&mutex_);
    stop_grace = stop_grace_;
  }
  if (stop_grace.has_value()) channel->Send(StopMessage(*stop_grace)).IgnoreError();
  FromSupervisor message;
  absl::Status status = channel->Receive(&message);
  while (status.ok()) {
    terminal_seen_ = terminal_seen_ || IsTerminal(message.status().state());
    owner_->OnSupervisorMessage(job_id_, message);
    Settle();
    status = channel->Receive(&message);
  }
  absl::MutexLock lock(&mutex_);
  channel_ = nullptr;
  if (!detached_ && !terminal_seen_) {
    spdlog::warn("job {}: lost its supervisor: {}", job_id_, std::string(status.message()));
  }
}

SupervisorEnd SupervisorHandle::AwaitEnd() {
  SupervisorEnd end;
  if (process_.pidfd.valid()) {
    // A supervisor that has said how the job ended may still close its trackers; one that has not
    // and cannot be reached must not run on behind a job that counts as failed.
    if (!terminal_seen_) SendKill();
    if (WaitFor(absl::InfiniteDuration()) == Wait::kDetached) return end;
    int status = 0;
    if (process_.child > 0 && waitpid(process_.child, &status, 0) == process_.child) {
      if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
      if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    }
  }
  auto reader = record::Reader::Open(folder_.record());
  if (!reader.ok()) return end;
  auto status = (*reader)->ReadStatus();
  end.status = status.ok() ? *std::move(status) : accel::internal::v1::JobStatus();
  return end;
}

SupervisorHandle::Wait SupervisorHandle::WaitFor(absl::Duration timeout) {
  const int timeout_ms = timeout == absl::InfiniteDuration()
                             ? -1
                             : static_cast<int>(absl::ToInt64Milliseconds(timeout));
  pollfd polled[] = {{wakeup_.get(), POLLIN, 0}, {process_.pidfd.get(), POLLIN, 0}};
  while (poll(polled, 2, timeout_ms) < 0 && errno == EINTR) {
  }
  if (polled[0].revents != 0) return Wait::kDetached;
  if (polled[1].revents != 0) return Wait::kProcessEnded;
  return Wait::kTimeout;
}

}  // namespace accel::daemon
