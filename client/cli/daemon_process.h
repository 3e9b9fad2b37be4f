#ifndef ACCEL_CLIENT_CLI_DAEMON_PROCESS_H_
#define ACCEL_CLIENT_CLI_DAEMON_PROCESS_H_

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/io.h"
#include "client/cli/places.h"

namespace accel::cli {

// A user-level acceld to start.
struct DaemonOptions {
  // Path of acceld.
  std::filesystem::path program;
  // Created, owner-only, where it does not exist. acceld.log in it gets the daemon's output.
  std::filesystem::path state_dir;
  // Flags after --state_dir.
  std::vector<std::string> arguments;
  // Until it serves.
  absl::Duration timeout = absl::Seconds(30);
};

// acceld beside accelctl, else on PATH. FAILED_PRECONDITION when it is at neither.
absl::StatusOr<std::filesystem::path> FindAcceld(const Io& io);

// The daemon that runs with this state folder. NOT_FOUND when none does: no acceld.json, or one
// whose pid is no acceld.
absl::StatusOr<DaemonFile> RunningDaemon(const std::filesystem::path& state_dir);

// Starts acceld in a session of its own and waits until its acceld.json is there and its health is
// SERVING. An error leaves no process behind: FAILED_PRECONDITION with the end of its log when it
// exits, DEADLINE_EXCEEDED when it does not serve in time and was ended.
absl::StatusOr<DaemonFile> StartDaemon(const Io& io, const DaemonOptions& options);

// Sends SIGTERM and waits for the end of the process. DEADLINE_EXCEEDED when it still runs then;
// FAILED_PRECONDITION when `pid` is no acceld.
absl::Status StopDaemon(pid_t pid, absl::Duration timeout);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_DAEMON_PROCESS_H_
