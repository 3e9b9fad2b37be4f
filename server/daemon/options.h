#ifndef ACCEL_SERVER_DAEMON_OPTIONS_H_
#define ACCEL_SERVER_DAEMON_OPTIONS_H_

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/daemon/address.h"
#include "server/daemon/exit_codes.h"

namespace accel::daemon {

// A tracker plug-in as the operator names it: `<path>@sha256:<digest>`.
struct TrackerPluginFile {
  std::filesystem::path path;
  // 64 hexadecimal digits.
  std::string sha256;
};

// How a daemon runs. Flags of the same names set the fields; a configuration file holds the same
// options.
struct DaemonOptions {
  std::filesystem::path state_dir = "/var/lib/accel";
  // At least one after parsing.
  std::vector<Address> listen;
  // Where Prometheus scrapes; none means off.
  std::optional<Address> metrics_address;
  // Folders of data files by the name that jobs use.
  std::map<std::string, std::filesystem::path> data_roots;
  // Most ranks of one job.
  int max_world_size = 2;
  // Most ranks at one time; at least max_world_size.
  int max_ranks = 2;
  int max_queued_jobs = 1000;
  int max_streams = 256;
  std::filesystem::path supervisor;
  std::filesystem::path worker;
  // What the workers find in their environment.
  std::map<std::string, std::string> worker_env;
  // The node's secrets, see ReadSecretsFile; empty for none.
  std::filesystem::path secrets_file;
  // Settings of trackers under the names of their environment variables.
  std::map<std::string, std::string> tracker_env;
  // Addresses that jobs may send secrets to.
  std::set<std::string> tracker_urls;
  // Addresses of custom trackers by name.
  std::map<std::string, std::string> custom_trackers;
  // Shared objects of tracker plug-ins.
  std::vector<TrackerPluginFile> tracker_plugins;
  // Certificates that trackers' servers may have beside the system's, PEM; empty for none.
  std::filesystem::path tracker_ca_file;

  // Networks, `<ip>/<bits>`, in which the rendezvous of a job may lie beside loopback.
  std::vector<std::string> rendezvous_networks;
  // Folder of the files of `init_method: file:///name`.
  std::filesystem::path rendezvous_root = "/var/lib/accel/rendezvous";

  // Not a flag: after this long without a message a following stream sends its progress.
  absl::Duration stream_idle_interval = absl::Seconds(5);
  // Not a flag: how often the metrics are fed.
  absl::Duration metrics_interval = absl::Seconds(1);
};

// CPU cores that this process may use.
int UsableCores();

// What a command line comes to: options, or the code to exit with when there is nothing to run
// (help, version, a mistake; texts have been printed).
struct CommandLine {
  std::optional<DaemonOptions> options;
  ExitCode exit_code = kExitOk;
};

// Reads the flags of acceld. `executable_dir` is where the other programs lie by default.
CommandLine ParseCommandLine(int argc, const char* const* argv,
                             const std::filesystem::path& executable_dir);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_OPTIONS_H_
