#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "core/base/fd.h"
#include "core/tracking/plugin/plugin_process.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/out_of_memory.h"
#include "server/supervisor/plugin_main.h"
#include "server/supervisor/supervisor.h"
#include "server/supervisor/tracker_sync.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace {

constexpr absl::Duration kTermGrace = absl::Seconds(30);

// Everything that this process and its libraries say on stderr goes into the job's folder: the
// daemon that started it may be gone.
bool LogInto(const std::filesystem::path& job_dir) {
  const std::filesystem::path path = job_dir / "supervisor.log";
  const accel::Fd log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const accel::Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!log.valid() || !null.valid()) {
    spdlog::critical("cannot open {}: {}", path.string(), strerror(errno));
    return false;
  }
  dup2(null.get(), STDIN_FILENO);
  dup2(log.get(), STDOUT_FILENO);
  dup2(log.get(), STDERR_FILENO);
  return true;
}

// SIGTERM becomes readable; before the first thread starts, so that all of them block it.
accel::Fd TakeSignals() {
  for (const int ignored : {SIGHUP, SIGINT, SIGPIPE}) signal(ignored, SIG_IGN);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGTERM);
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  return accel::Fd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

int RunJob(const std::filesystem::path& job_dir) {
  const accel::Fd signals = TakeSignals();
  accel::supervisor::SupervisorOptions options;
  options.job_dir = job_dir;
  options.attempt.memory_events = accel::supervisor::OutOfMemoryCounter::OwnEventsFile();
  accel::supervisor::EventLoop loop;
  auto supervisor = accel::supervisor::Supervisor::Open(loop, options);
  if (!supervisor.ok()) {
    spdlog::critical("{}", supervisor.status().ToString());
    return 1;
  }
  loop.Watch(signals.get(), POLLIN, [&](short) {
    signalfd_siginfo info;
    if (read(signals.get(), &info, sizeof(info)) == sizeof(info)) (*supervisor)->Stop(kTermGrace);
  });
  (*supervisor)->Start();
  loop.Run();
  loop.Unwatch(signals.get());
  return (*supervisor)->ended() ? 0 : 1;
}

// 3 tells the daemon that another process has the job.
int SyncTrackersOf(const std::filesystem::path& job_dir, double timeout_seconds) {
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status =
      accel::supervisor::SyncTrackers(job_dir, absl::Seconds(timeout_seconds));
  if (status.ok()) return 0;
  spdlog::error("trackers: {}", status.ToString());
  return absl::IsFailedPrecondition(status) ? 3 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs one job of an Accel node; started by acceld.");
  std::string job_dir;
  auto* const job = app.add_option("--job_dir", job_dir, "The job's folder, which holds launch.pb");
  double sync_seconds = 0;
  app.add_option("--sync_trackers", sync_seconds,
                 "Sends what the ended job's trackers have not got, for at most this many seconds");
  std::string hosted;
  std::string described;
  std::string digest;
  auto* const host = app.add_option(accel::tracking::kPluginHostFlag, hosted,
                                    "Serves the tracker plug-in in this shared object to a job");
  auto* const describe = app.add_option("--describe_tracker_plugin", described,
                                        "Says what the tracker plug-in in this shared object is");
  app.add_option(accel::tracking::kPluginDigestFlag, digest, "SHA-256 of the shared object");
  job->excludes(host)->excludes(describe);
  CLI11_PARSE(app, argc, argv);
  if (*host) return accel::supervisor::HostTrackerPlugin(hosted, digest);
  if (*describe) return accel::supervisor::DescribeTrackerPlugin(described, digest);
  if (job_dir.empty()) return app.exit(CLI::RequiredError("--job_dir"));
  spdlog::set_default_logger(spdlog::stderr_logger_mt("supervisor"));
  spdlog::flush_on(spdlog::level::info);
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(job_dir, error);
  if (error || !LogInto(absolute)) return 1;
  const int code = sync_seconds > 0 ? SyncTrackersOf(absolute, sync_seconds) : RunJob(absolute);
  spdlog::shutdown();
  // Without the libraries' exit handlers: a tracker that was left behind in a call may still use
  // them.
  std::_Exit(code);
}
