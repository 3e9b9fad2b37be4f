#include "server/daemon/tracker_plugins.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/config/tracking_resolve.h"

namespace accel::daemon {
namespace {

using accel::internal::v1::TrackerPlugin;

constexpr absl::Duration kDescribeLimit = absl::Seconds(20);
constexpr size_t kMaxOutputBytes = 64 << 10;

// A child that is killed and reaped when this goes before it has ended.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }

  int Wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// Reads both ends until they are closed.
absl::Status ReadAll(const Fd& out, std::string* output, const Fd& err, std::string* errors) {
  const absl::Duration deadline = Clock::Real().Monotonic() + kDescribeLimit;
  pollfd polled[] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
  std::string* const texts[] = {output, errors};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("did not answer within ", absl::FormatDuration(kDescribeLimit)));
    }
    poll(polled, 2, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    for (int i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(polled[i].fd, buffer, sizeof(buffer));
      if (count > 0 && texts[i]->size() < kMaxOutputBytes) {
        texts[i]->append(buffer, static_cast<size_t>(count));
      }
      if (count == 0 || (count < 0 && errno != EINTR)) polled[i].fd = -1;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TrackerPlugin> Describe(const TrackerPluginFile& file,
                                       const std::filesystem::path& supervisor,
                                       ProcessLauncher* launcher) {
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const Fd out_read(out[0]);
  Fd out_write(out[1]);
  if (pipe2(err, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const Fd err_read(err[0]);
  Fd err_write(err[1]);
  ProcessOptions process;
  process.argv = {supervisor.string(), "--describe_tracker_plugin", file.path.string(), "--sha256",
                  file.sha256};
  process.descriptors = {{out_write.get(), STDOUT_FILENO}, {err_write.get(), STDERR_FILENO}};
  ACCEL_ASSIGN_OR_RETURN(const pid_t pid, launcher->Spawn(process));
  Child child(pid);
  out_write.Reset();
  err_write.Reset();
  std::string output;
  std::string errors;
  ACCEL_RETURN_IF_ERROR(ReadAll(out_read, &output, err_read, &errors));
  const int status = child.Wait();
  TrackerPlugin plugin;
  if (status == 0 && plugin.ParseFromString(output)) return plugin;
  if (errors.empty()) errors = DescribeWaitStatus(status);
  return absl::InvalidArgumentError(RepairUtf8(errors));
}

absl::Status Wrong(const TrackerPluginFile& file, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("--tracker_plugin \"", file.path.string(), "\": ", why));
}

}  // namespace

absl::StatusOr<std::map<std::string, TrackerPlugin>> RegisterTrackerPlugins(
    const DaemonOptions& options, ProcessLauncher* launcher) {
  std::map<std::string, TrackerPlugin> plugins;
  for (const TrackerPluginFile& file : options.tracker_plugins) {
    absl::StatusOr<TrackerPlugin> plugin = Describe(file, options.supervisor, launcher);
    if (!plugin.ok()) return Wrong(file, plugin.status().message());
    const std::string name = plugin->name();
    const absl::Status named = config::CheckCustomTrackerName(name);
    if (!named.ok()) return Wrong(file, named.message());
    if (options.custom_trackers.count(name) > 0 || !plugins.emplace(name, *plugin).second) {
      return Wrong(file, absl::StrCat("the name \"", name, "\" is registered already"));
    }
  }
  return plugins;
}

}  // namespace accel::daemon
