#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

#include "server/daemon/daemon.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace {

// Blocked before the first thread starts, so that only sigwait below takes them.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Each stream holds a few descriptors of its record.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  using accel::daemon::CommandLine;
  using accel::daemon::Daemon;
  const sigset_t end_signals = BlockEndSignals();
  umask(077);
  RaiseDescriptorLimit();
  spdlog::set_default_logger(spdlog::stderr_color_mt("acceld"));
  std::error_code error;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", error);
  CommandLine command_line = accel::daemon::ParseCommandLine(argc, argv, executable.parent_path());
  if (!command_line.options.has_value()) return command_line.exit_code;

  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(*std::move(command_line.options));
  if (!daemon.ok()) {
    std::cerr << "acceld: " << daemon.status().message() << "\n";
    return accel::daemon::ExitCodeOf(daemon.status());
  }
  int signal = 0;
  sigwait(&end_signals, &signal);
  spdlog::info("got signal {}", signal);
  (*daemon)->Drain();
  return accel::daemon::kExitOk;
}
