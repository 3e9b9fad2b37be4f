#include "client/cli/daemon_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kBetweenChecks = absl::Milliseconds(20);
constexpr off_t kLogTailBytes = 4096;

bool IsProgram(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

Fd OpenProcess(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

absl::Status Signal(const Fd& process, int signal) {
  if (syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "cannot signal acceld");
}

// Whether the process ended within `timeout`.
bool AwaitEnd(const Fd& process, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Monotonic() + timeout;
  while (true) {
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    pollfd entry{process.get(), POLLIN, 0};
    const int ready =
        poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left))));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

// What the daemon wrote after `start`, its last 4 KiB at most, each line indented.
std::string LogTail(const fs::path& log, off_t start) {
  const absl::StatusOr<std::string> text = FileSystem::Real().Read(log);
  if (!text.ok()) return "";
  const off_t size = static_cast<off_t>(text->size());
  const off_t begin = std::min(size, std::max(start, size - kLogTailBytes));
  std::string tail;
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(*text).substr(static_cast<size_t>(begin)), '\n',
                      absl::SkipWhitespace())) {
    absl::StrAppend(&tail, "; ", line);
  }
  return tail;
}

absl::StatusOr<Fd> OpenLog(const fs::path& log) {
  Fd fd(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot open", log, errno);
  return fd;
}

absl::StatusOr<pid_t> Spawn(const Io& io, const DaemonOptions& options, const Fd& log) {
  Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus("cannot open", "/dev/null", errno);
  ProcessOptions process;
  process.argv = {options.program.string(), "--state_dir", options.state_dir.string()};
  process.argv.insert(process.argv.end(), options.arguments.begin(), options.arguments.end());
  for (const auto& [name, value] : io.environment) {
    process.environment.push_back(absl::StrCat(name, "=", value));
  }
  process.descriptors = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  process.new_session = true;
  return io.launcher.Spawn(process);
}

bool IsServing(const std::string& address, absl::Duration timeout) {
  const auto client = client::Client::Connect(address);
  return client.ok() && (*client)->CheckServing(timeout).ok();
}

// Ends a child that must not stay, in order or by force.
void EndChild(pid_t pid, const Fd& process) {
  (void)Signal(process, SIGTERM);
  if (!AwaitEnd(process, absl::Seconds(10))) (void)Signal(process, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
}

}  // namespace

absl::StatusOr<fs::path> FindAcceld(const Io& io) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error && IsProgram(self.parent_path() / "acceld")) return self.parent_path() / "acceld";
  for (absl::string_view folder : absl::StrSplit(io.Env("PATH"), ':', absl::SkipEmpty())) {
    const fs::path candidate = fs::path(std::string(folder)) / "acceld";
    if (IsProgram(candidate)) return candidate;
  }
  return absl::FailedPreconditionError(absl::StrCat("cannot find acceld: it is neither in ",
                                                    self.parent_path().string(),
                                                    " nor on PATH; name it with --program"));
}

absl::StatusOr<DaemonFile> RunningDaemon(const fs::path& state_dir) {
  ACCEL_ASSIGN_OR_RETURN(DaemonFile file, ReadDaemonFile(state_dir));
  if (IsAcceld(file.pid)) return file;
  return absl::NotFoundError(absl::StrCat("acceld.json in ", state_dir.string(), " names pid ",
                                          file.pid, ", which is no acceld"));
}

absl::StatusOr<DaemonFile> StartDaemon(const Io& io, const DaemonOptions& options) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(options.state_dir));
  const fs::path log_path = options.state_dir / "acceld.log";
  ACCEL_ASSIGN_OR_RETURN(const Fd log, OpenLog(log_path));
  struct stat before {};
  fstat(log.get(), &before);
  ACCEL_ASSIGN_OR_RETURN(const pid_t pid, Spawn(io, options, log));
  const Fd process = OpenProcess(pid);

  const absl::Duration deadline = io.clock.Monotonic() + options.timeout;
  while (!AwaitEnd(process, kBetweenChecks)) {
    const absl::Duration left = deadline - io.clock.Monotonic();
    if (left <= absl::ZeroDuration()) {
      EndChild(pid, process);
      return absl::DeadlineExceededError(absl::StrCat("acceld did not serve within ",
                                                      absl::FormatDuration(options.timeout),
                                                      " and was ended; see ", log_path.string()));
    }
    const absl::StatusOr<DaemonFile> file = ReadDaemonFile(options.state_dir);
    if (file.ok() && file->pid == pid && IsServing(file->listen_addresses.front(), left)) {
      return file;
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return absl::FailedPreconditionError(absl::StrCat("acceld ", DescribeWaitStatus(status),
                                                    LogTail(log_path, before.st_size), "; see ",
                                                    log_path.string()));
}

absl::Status StopDaemon(pid_t pid, absl::Duration timeout) {
  // The descriptor comes first: what is checked and signalled then is one and the same process.
  const Fd process = OpenProcess(pid);
  if (!process.valid()) {
    if (errno == ESRCH) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open process ", pid));
  }
  if (!IsAcceld(pid)) {
    return absl::FailedPreconditionError(absl::StrCat("pid ", pid, " is no acceld"));
  }
  ACCEL_RETURN_IF_ERROR(Signal(process, SIGTERM));
  if (AwaitEnd(process, timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("acceld (pid ", pid, ") still runs after ", absl::FormatDuration(timeout)));
}

}  // namespace accel::cli
