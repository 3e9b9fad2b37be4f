#include "core/tracking/plugin/plugin_process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/plugin/accel_tracker.h"

namespace accel::tracking {
namespace {

// How long a process may take to end by itself.
constexpr int kEndTries = 100;
constexpr absl::Duration kEndWait = absl::Milliseconds(10);

}  // namespace

using accel::internal::v1::FromTrackerPlugin;
using accel::internal::v1::ToTrackerPlugin;
using accel::internal::v1::TrackerPlugin;

absl::StatusOr<std::unique_ptr<PluginProcess>> PluginProcess::Start(
    const std::filesystem::path& program, const TrackerPlugin& plugin, ProcessLauncher* launcher,
    absl::Duration limit) {
  ACCEL_ASSIGN_OR_RETURN(auto channel, MakeSocketPair());
  const timeval time = absl::ToTimeval(limit);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (setsockopt(channel.first.get(), SOL_SOCKET, option, &time, sizeof(time)) != 0) {
      return absl::ErrnoToStatus(errno, "cannot limit a socket's waits");
    }
  }
  ProcessOptions options;
  options.argv = {program.string(), kPluginHostFlag, plugin.path(), kPluginDigestFlag,
                  plugin.sha256()};
  options.descriptors = {{channel.second.get(), kPluginChannelFd}};
  ACCEL_ASSIGN_OR_RETURN(const pid_t pid, launcher->Spawn(options));
  return std::unique_ptr<PluginProcess>(new PluginProcess(pid, std::move(channel.first), limit));
}

PluginProcess::~PluginProcess() {
  channel_.Shutdown();
  int status;
  if (!EndsSoon(&status)) Kill();
}

bool PluginProcess::EndsSoon(int* status) {
  for (int i = 0; i < kEndTries && pid_ > 0; ++i) {
    if (waitpid(pid_, status, WNOHANG) == pid_) pid_ = -1;
    if (pid_ > 0) absl::SleepFor(kEndWait);
  }
  return pid_ <= 0;
}

void PluginProcess::Kill() {
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::Status PluginProcess::Lost(const absl::Status& why) {
  usable_ = false;
  // The end of the channel may be seen before that of the process.
  const bool closed = absl::IsOutOfRange(why) || absl::IsDataLoss(why);
  int status = 0;
  if (closed && EndsSoon(&status)) {
    return absl::UnavailableError(
        absl::StrCat("the process of the plug-in ", DescribeWaitStatus(status)));
  }
  Kill();
  if (absl::IsResourceExhausted(why)) return why;
  return absl::UnavailableError(
      absl::StrCat("the plug-in did not answer within ", absl::FormatDuration(limit_)));
}

absl::Status PluginProcess::Call(const ToTrackerPlugin& call) {
  if (!usable_) return absl::UnavailableError("the process of the plug-in has ended");
  if (absl::Status sent = channel_.Send(call); !sent.ok()) return Lost(sent);
  FromTrackerPlugin answer;
  if (absl::Status received = channel_.Receive(&answer); !received.ok()) return Lost(received);
  const std::string text = RepairUtf8(answer.error());
  switch (answer.result()) {
    case ACCEL_OK:
      return absl::OkStatus();
    case ACCEL_RETRY:
      return absl::UnavailableError(text.empty() ? "the plug-in gave no reason" : text);
    case ACCEL_REFUSED:
      return Permanent(
          absl::FailedPreconditionError(text.empty() ? "the plug-in gave no reason" : text));
    default:
      return absl::UnavailableError(
          absl::StrCat("the plug-in answered with ", answer.result(), ": ", text));
  }
}

}  // namespace accel::tracking
