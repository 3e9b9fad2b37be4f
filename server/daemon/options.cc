#include "server/daemon/options.h"

#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/ip_address.h"
#include "core/base/secrets_file.h"
#include "core/base/status_macros.h"
#include "core/config/tracking_resolve.h"
#include "server/daemon/grpc_status.h"

namespace accel::daemon {
namespace fs = std::filesystem;
namespace {

// The flags as they are written.
struct Flags {
  std::string state_dir = "/var/lib/accel";
  std::vector<std::string> listen;
  std::string metrics_address = "127.0.0.1:9464";
  std::vector<std::string> data_roots;
  int max_world_size = 0;
  int max_ranks = 0;
  int max_queued_jobs = 1000;
  int max_streams = 256;
  std::string supervisor;
  std::string worker;
  std::vector<std::string> worker_env;
  std::string secrets_file;
  std::vector<std::string> tracker_env;
  std::vector<std::string> tracker_urls;
  std::vector<std::string> custom_trackers;
  std::vector<std::string> tracker_plugins;
  std::string tracker_ca_file;
  std::vector<std::string> rendezvous_networks;
  std::string rendezvous_root;
};

void AddFlags(CLI::App* app, Flags* flags) {
  app->set_version_flag("--version", ACCEL_VERSION);
  app->set_config("--config", "",
                  "file with the same options, `option = value` a line (lists in brackets); flags "
                  "win");
  app->add_option("--state_dir", flags->state_dir,
                  "folder of jobs, records and node.db; created owner-only where missing")
      ->capture_default_str();
  app->add_option("--listen", flags->listen,
                  "address of the API, unix:/path or 127.0.0.1:port (port 0: any free one); may be "
                  "repeated (default unix:<state_dir>/acceld.sock)");
  app->add_option("--metrics_address", flags->metrics_address,
                  "loopback address of the Prometheus endpoint, or off")
      ->capture_default_str();
  app->add_option(
      "--data_root", flags->data_roots,
      "name=/folder: data files of jobs lie below such folders, named <name>/<path>; may "
      "be repeated");
  app->add_option("--max_world_size", flags->max_world_size,
                  "most ranks of one job (default: cores of the node, at least 2)")
      ->check(CLI::Range(1, 65536));
  app->add_option("--max_ranks", flags->max_ranks,
                  "most ranks at one time, at least max_world_size (default: max_world_size)")
      ->check(CLI::Range(1, 65536));
  app->add_option("--max_queued_jobs", flags->max_queued_jobs, "most jobs that wait")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app->add_option("--max_streams", flags->max_streams, "most open telemetry streams")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app->add_option("--supervisor", flags->supervisor,
                  "program of a job's supervisor (default: accel-supervisor beside acceld)");
  app->add_option("--worker", flags->worker,
                  "program of a rank (default: accel-worker beside acceld)");
  app->add_option("--worker_env", flags->worker_env,
                  "NAME=value in the environment of the workers, which otherwise holds only PATH, "
                  "HOME, TMPDIR, LANG, LC_ALL and TZ; may be repeated");
  app->add_option("--secrets_file", flags->secrets_file,
                  "file of NAME=value lines (mode 0600) with the keys that trackers may use");
  app->add_option("--tracker_env", flags->tracker_env,
                  "NAME=value of a tracker's own environment variable (MLFLOW_TRACKING_URI, ...), "
                  "for what a job leaves open; may be repeated");
  app->add_option("--tracker_url", flags->tracker_urls,
                  "address that a job may name for a tracker that uses a secret, beside those in "
                  "--tracker_env and the public services; may be repeated");
  app->add_option("--custom_tracker", flags->custom_trackers,
                  "name=address of a tracker that takes JSON lines by HTTP; may be repeated");
  app->add_option("--tracker_plugin", flags->tracker_plugins,
                  "/path@sha256:digest of a shared object with a tracker of your own "
                  "(core/tracking/plugin/accel_tracker.h); may be repeated");
  app->add_option("--tracker_ca_file", flags->tracker_ca_file,
                  "certificates of private authorities, PEM, that the trackers' servers may have "
                  "beside the system's");
  app->add_option("--rendezvous_network", flags->rendezvous_networks,
                  "network, ip/bits, in which jobs may meet other machines; what they say there is "
                  "neither encrypted nor authenticated; may be repeated (default: loopback only)");
  app->add_option("--rendezvous_root", flags->rendezvous_root,
                  "folder of the files of init_method file:///name, for jobs of several machines "
                  "one that all of them mount (default: <state_dir>/rendezvous)");
}

absl::Status Wrong(absl::string_view flag, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " \"", value, "\": ", why));
}

// Splits `name=value`.
absl::StatusOr<std::pair<std::string, std::string>> SplitPair(absl::string_view flag,
                                                              const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Wrong(flag, text, "must be name=value");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::Status AddDataRoot(const std::string& text, DaemonOptions* options) {
  ACCEL_ASSIGN_OR_RETURN(auto pair, SplitPair("data_root", text));
  const auto& [name, path] = pair;
  const bool good_name = std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  });
  if (!good_name) {
    return Wrong("data_root", text, "the name may hold letters, digits, \"_\" and \"-\"");
  }
  std::error_code error;
  if (!fs::path(path).is_absolute() || !fs::is_directory(path, error)) {
    return Wrong("data_root", text, "must name an existing folder by its absolute path");
  }
  if (!options->data_roots.emplace(name, path).second) {
    return Wrong("data_root", text, "the name is used twice");
  }
  return absl::OkStatus();
}

absl::StatusOr<TrackerPluginFile> ParsePlugin(const std::string& text) {
  static constexpr absl::string_view kMark = "@sha256:";
  const size_t mark = text.rfind(kMark.data());
  TrackerPluginFile plugin;
  if (mark != std::string::npos) {
    plugin.path = text.substr(0, mark);
    plugin.sha256 = absl::AsciiStrToLower(text.substr(mark + kMark.size()));
  }
  const bool good =
      plugin.sha256.size() == 64 && std::all_of(plugin.sha256.begin(), plugin.sha256.end(),
                                                [](char c) { return absl::ascii_isxdigit(c); });
  if (good && plugin.path.is_absolute()) return plugin;
  return Wrong("tracker_plugin", text, "must be /path@sha256: and 64 hexadecimal digits");
}

// What cannot be read would make every tracker fail later, far from the mistake.
absl::Status AddCaFile(const std::string& text, DaemonOptions* options) {
  if (text.empty()) return absl::OkStatus();
  options->tracker_ca_file = fs::absolute(text);
  if (access(options->tracker_ca_file.c_str(), R_OK) == 0) return absl::OkStatus();
  return Wrong("tracker_ca_file", text, "cannot be read");
}

absl::Status AddTrackers(const Flags& flags, DaemonOptions* options) {
  if (!flags.secrets_file.empty()) {
    options->secrets_file = fs::absolute(flags.secrets_file);
    const auto secrets = ReadSecretsFile(options->secrets_file);
    if (!secrets.ok()) {
      return Wrong("secrets_file", flags.secrets_file, secrets.status().message());
    }
  }
  for (const std::string& text : flags.tracker_env) {
    ACCEL_ASSIGN_OR_RETURN(auto pair, SplitPair("tracker_env", text));
    const absl::Status checked = config::CheckTrackerVariable(pair.first, pair.second);
    if (!checked.ok()) return Wrong("tracker_env", pair.first, checked.message());
    options->tracker_env[pair.first] = pair.second;
  }
  for (const std::string& url : flags.tracker_urls) {
    options->tracker_urls.emplace(absl::StripSuffix(url, "/"));
  }
  for (const std::string& text : flags.custom_trackers) {
    ACCEL_ASSIGN_OR_RETURN(auto pair, SplitPair("custom_tracker", text));
    const absl::Status named = config::CheckCustomTrackerName(pair.first);
    if (!named.ok()) return Wrong("custom_tracker", text, named.message());
    const bool http =
        absl::StartsWith(pair.second, "http://") || absl::StartsWith(pair.second, "https://");
    if (!http) return Wrong("custom_tracker", text, "the address must start with http(s)://");
    if (!options->custom_trackers.emplace(pair.first, pair.second).second) {
      return Wrong("custom_tracker", text, "the name is used twice");
    }
  }
  for (const std::string& text : flags.tracker_plugins) {
    ACCEL_ASSIGN_OR_RETURN(TrackerPluginFile plugin, ParsePlugin(text));
    options->tracker_plugins.push_back(std::move(plugin));
  }
  return AddCaFile(flags.tracker_ca_file, options);
}

absl::Status CheckProgram(absl::string_view flag, const fs::path& path) {
  if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return Wrong(flag, path.string(), "is no program that can be run");
}

absl::StatusOr<DaemonOptions> ToOptions(const Flags& flags, const fs::path& executable_dir) {
  DaemonOptions options;
  options.state_dir = fs::absolute(flags.state_dir).lexically_normal();
  std::vector<std::string> listen = flags.listen;
  if (listen.empty()) {
    listen.push_back(absl::StrCat("unix:", (options.state_dir / "acceld.sock").string()));
  }
  for (const std::string& text : listen) {
    ACCEL_ASSIGN_OR_RETURN(Address address, ParseAddress(text));
    options.listen.push_back(std::move(address));
  }
  if (flags.metrics_address != "off") {
    ACCEL_ASSIGN_OR_RETURN(options.metrics_address, ParseAddress(flags.metrics_address));
    if (options.metrics_address->is_unix()) {
      return Wrong("metrics_address", flags.metrics_address, "must be 127.0.0.1:port or off");
    }
  }
  for (const std::string& text : flags.data_roots) {
    ACCEL_RETURN_IF_ERROR(AddDataRoot(text, &options));
  }
  for (const std::string& text : flags.worker_env) {
    ACCEL_ASSIGN_OR_RETURN(auto pair, SplitPair("worker_env", text));
    options.worker_env[pair.first] = pair.second;
  }
  ACCEL_RETURN_IF_ERROR(AddTrackers(flags, &options));
  for (const std::string& text : flags.rendezvous_networks) {
    const auto network = IpNetwork::Parse(text);
    if (!network.ok()) return Wrong("rendezvous_network", text, network.status().message());
  }
  options.rendezvous_networks = flags.rendezvous_networks;
  options.rendezvous_root = flags.rendezvous_root.empty() ? options.state_dir / "rendezvous"
                                                          : fs::path(flags.rendezvous_root);
  if (!options.rendezvous_root.is_absolute()) {
    return Wrong("rendezvous_root", flags.rendezvous_root, "must be an absolute path");
  }
  options.max_world_size =
      flags.max_world_size > 0 ? flags.max_world_size : std::max(2, UsableCores());
  options.max_ranks = flags.max_ranks > 0 ? flags.max_ranks : options.max_world_size;
  if (options.max_ranks < options.max_world_size) {
    return Wrong("max_ranks", absl::StrCat(options.max_ranks),
                 absl::StrCat("must be at least max_world_size, ", options.max_world_size));
  }
  options.max_queued_jobs = flags.max_queued_jobs;
  options.max_streams = flags.max_streams;
  options.supervisor =
      flags.supervisor.empty() ? executable_dir / "accel-supervisor" : fs::path(flags.supervisor);
  options.worker = flags.worker.empty() ? executable_dir / "accel-worker" : fs::path(flags.worker);
  options.supervisor = fs::absolute(options.supervisor);
  options.worker = fs::absolute(options.worker);
  ACCEL_RETURN_IF_ERROR(CheckProgram("supervisor", options.supervisor));
  ACCEL_RETURN_IF_ERROR(CheckProgram("worker", options.worker));
  return options;
}

}  // namespace

int UsableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

CommandLine ParseCommandLine(int argc, const char* const* argv, const fs::path& executable_dir) {
  CLI::App app(
      "acceld: runs training jobs on this node and serves their API.\n"
      "Exit codes: 0 drained, 1 failure, 2 wrong flags, 3 state folder in use, 4 address in "
      "use.",
      "acceld");
  Flags flags;
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, app.exit(error) == 0 ? kExitOk : kExitUsage};
  }
  absl::StatusOr<DaemonOptions> options = ToOptions(flags, executable_dir);
  if (!options.ok()) {
    std::cerr << "acceld: " << options.status().message() << "\n";
    return {std::nullopt, kExitUsage};
  }
  return {*std::move(options), kExitOk};
}

}  // namespace accel::daemon
