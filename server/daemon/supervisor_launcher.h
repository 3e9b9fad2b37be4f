#ifndef ACCEL_SERVER_DAEMON_SUPERVISOR_LAUNCHER_H_
#define ACCEL_SERVER_DAEMON_SUPERVISOR_LAUNCHER_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/job.pb.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "server/daemon/supervisor_handle.h"

namespace accel::daemon {

// What every job of the node is started with.
struct LaunchConfig {
  std::filesystem::path jobs_dir;
  std::filesystem::path supervisor_path;
  std::filesystem::path worker_path;
  std::map<std::string, std::filesystem::path> data_roots;
  std::vector<std::string> rendezvous_networks;
  std::filesystem::path rendezvous_root;
  // What the operator lets through to the workers.
  std::map<std::string, std::string> worker_environment;
  // See DaemonOptions.
  std::filesystem::path secrets_file;
  std::map<std::string, std::string> tracker_environment;
  std::map<std::string, std::string> custom_trackers;
  std::map<std::string, accel::internal::v1::TrackerPlugin> tracker_plugins;
  std::filesystem::path tracker_ca_file;
};

// A supervisor that was started.
struct LaunchedSupervisor {
  SupervisorProcess process;
  // ProcessIdentity::ToString.
  std::string identity;
};

// Starts a job's supervisor, `accel-supervisor --job_dir <folder>`, in a session of its own, with
// standard output and error in the folder. Of the daemon's own environment the supervisor and its
// workers get PATH, HOME, TMPDIR, LANG, LC_ALL and TZ only.
class SupervisorLauncher {
 public:
  SupervisorLauncher(LaunchConfig config, ProcessLauncher* processes, FileSystem* files)
      : config_(std::move(config)), processes_(processes), files_(files) {}

  // Writes `launch.pb` durably and starts the program. An error leaves no process behind; the
  // checkpoint to start from being gone is NOT_FOUND.
  absl::StatusOr<LaunchedSupervisor> Launch(const accel::v1::Job& job);

  // Starts the process that sends what an ended job's trackers have not got, for at most `timeout`,
  // with the node's settings of today. The caller reaps it.
  absl::StatusOr<pid_t> LaunchTrackerSync(const std::string& job_id, absl::Duration timeout);

 private:
  void AddTrackerSettings(accel::internal::v1::JobLaunch* launch) const;
  absl::StatusOr<pid_t> Spawn(const std::filesystem::path& job_dir,
                              const std::vector<std::string>& arguments);

  const LaunchConfig config_;
  ProcessLauncher* const processes_;
  FileSystem* const files_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_SUPERVISOR_LAUNCHER_H_
