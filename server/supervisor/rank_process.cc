#include "server/supervisor/rank_process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/files.h"
#include "core/base/message_channel.h"
#include "core/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::FromWorker;
using accel::internal::v1::ToWorker;
using accel::internal::v1::WorkerReport;
using accel::v1::LogRecord;

// Per call: other descriptors must not starve behind a worker that writes without end.
constexpr size_t kMaxOutputBytes = 256 << 10;
// What a process may have left in a pipe: its greatest capacity without privileges.
constexpr size_t kMaxLeftoverBytes = 1 << 20;

absl::StatusOr<std::pair<Fd, Fd>> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  std::pair<Fd, Fd> ends{Fd(fds[0]), Fd(fds[1])};
  if (fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "cannot set up a pipe");
  }
  return ends;
}

pid_t WaitFor(pid_t pid, int* status) {
  pid_t reaped;
  do {
    reaped = waitpid(pid, status, 0);
  } while (reaped < 0 && errno == EINTR);
  return reaped;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(EventLoop& loop,
                                                                ProcessLauncher& launcher,
                                                                const RankOptions& options,
                                                                WorkerObserver& observer) {
  ACCEL_ASSIGN_OR_RETURN(auto channel, MakeSocketPair());
  ACCEL_ASSIGN_OR_RETURN(auto out, MakePipe());
  ACCEL_ASSIGN_OR_RETURN(auto err, MakePipe());
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus("cannot open", "/dev/null", errno);
  ProcessOptions process;
  process.argv = {options.worker_path};
  process.environment = options.environment;
  process.descriptors = {{null.get(), STDIN_FILENO},
                         {out.second.get(), STDOUT_FILENO},
                         {err.second.get(), STDERR_FILENO},
                         {channel.second.get(), kChannelFd}};
  if (options.store_listen_fd >= 0) {
    process.descriptors.emplace_back(options.store_listen_fd, kStoreListenFd);
  }
  ACCEL_ASSIGN_OR_RETURN(const pid_t pid, launcher.Spawn(process));
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    const int error = errno;
    kill(pid, SIGKILL);
    int status;
    WaitFor(pid, &status);
    return absl::ErrnoToStatus(error, "cannot open a pidfd");
  }
  return std::unique_ptr<RankProcess>(new RankProcess(loop, observer, options.rank, pid,
                                                      std::move(pidfd), std::move(channel.first),
                                                      std::move(out.first), std::move(err.first)));
}

RankProcess::RankProcess(EventLoop& loop, WorkerObserver& observer, int rank, pid_t pid, Fd pidfd,
                         Fd channel, Fd out, Fd err)
    : loop_(loop),
      observer_(observer),
      rank_(rank),
      pid_(pid),
      pidfd_(std::move(pidfd)),
      channel_(std::move(channel), MessageChannel::kMaxMessageBytes),
      outputs_{{std::move(out), LogRecord::STDOUT, {}}, {std::move(err), LogRecord::STDERR, {}}} {
  loop_.Watch(channel_.fd(), POLLIN, [this](short revents) { OnChannelReady(revents); });
  loop_.Watch(pidfd_.get(), POLLIN, [this](short) { OnProcessEnd(); });
  for (Output& output : outputs_) {
    loop_.Watch(output.pipe.get(), POLLIN, [this, &output](short) {
      if (!ReadOutput(output, kMaxOutputBytes)) EndOutput(output);
    });
  }
}

RankProcess::~RankProcess() {
  if (channel_open_) loop_.Unwatch(channel_.fd());
  for (Output& output : outputs_) {
    if (output.pipe.valid()) loop_.Unwatch(output.pipe.get());
  }
  if (!running()) return;
  loop_.Unwatch(pidfd_.get());
  Kill();
  int status;
  WaitFor(pid_, &status);
}

void RankProcess::Send(const ToWorker& message) {
  if (!channel_open_) return;
  if (absl::Status status = channel_.Send(message); !status.ok()) {
    spdlog::warn("cannot send to rank {}: {}", rank_, status.ToString());
    return;
  }
  loop_.SetEvents(channel_.fd(), channel_.has_unsent() ? POLLIN | POLLOUT : POLLIN);
}

void RankProcess::CloseChannel() { channel_.CloseOutput(); }

void RankProcess::Kill() {
  if (running()) syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void RankProcess::OnChannelReady(short revents) {
  if ((revents & POLLOUT) != 0) {
    // The end of a peer that is gone is seen by reading.
    if (!channel_.Flush().ok() || !channel_.has_unsent()) loop_.SetEvents(channel_.fd(), POLLIN);
  }
  if ((revents & ~POLLOUT) == 0) return;
  if (absl::Status status = ReadChannel(); !status.ok()) EndChannel(status);
}

absl::Status RankProcess::ReadChannel() {
  return channel_.ReadAvailable([this](absl::string_view frame) {
    FromWorker batch;
    if (!batch.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
      return absl::DataLossError("not a message of a worker");
    }
    for (const WorkerReport& report : batch.reports()) observer_.OnReport(rank_, report);
    return absl::OkStatus();
  });
}

void RankProcess::EndChannel(const absl::Status& status) {
  channel_open_ = false;
  loop_.Unwatch(channel_.fd());
  observer_.OnChannelEnd(rank_, status);
}

bool RankProcess::ReadOutput(Output& output, size_t max_bytes) {
  char chunk[64 << 10];
  for (size_t total = 0; total < max_bytes;) {
    const ssize_t got = read(output.pipe.get(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    total += static_cast<size_t>(got);
    output.splitter.Feed({chunk, static_cast<size_t>(got)}, [&](std::string text, bool truncated) {
      observer_.OnLine(rank_, output.source, std::move(text), truncated);
    });
  }
  return true;
}

void RankProcess::EndOutput(Output& output) {
  output.splitter.Finish([&](std::string text, bool truncated) {
    observer_.OnLine(rank_, output.source, std::move(text), truncated);
  });
  loop_.Unwatch(output.pipe.get());
  output.pipe.Reset();
}

void RankProcess::OnProcessEnd() {
  // What it reported and wrote last comes before its end; one read takes all that a socket's buffer
  // holds. What a child of it keeps open is given up.
  if (channel_open_) {
    if (absl::Status status = ReadChannel(); absl::IsDataLoss(status)) {
      spdlog::warn("rank {}: {}", rank_, status.ToString());
    }
    channel_open_ = false;
    loop_.Unwatch(channel_.fd());
  }
  for (Output& output : outputs_) {
    if (!output.pipe.valid()) continue;
    ReadOutput(output, kMaxLeftoverBytes);
    EndOutput(output);
  }
  int status = 0;
  WaitFor(pid_, &status);
  loop_.Unwatch(pidfd_.get());
  pidfd_.Reset();
  observer_.OnExit(rank_, status);
}

}  // namespace accel::supervisor
