#include "server/daemon/node_info.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/secrets_file.h"
#include "google/protobuf/util/time_util.h"

namespace accel::daemon {

int CountCudaDevices() {
  int devices = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view number = name;
    if (absl::ConsumePrefix(&number, "nvidia") && !number.empty() &&
        std::all_of(number.begin(), number.end(), absl::ascii_isdigit)) {
      ++devices;
    }
  }
  return devices;
}

accel::v1::Node DescribeNode(const DaemonOptions& options, absl::Time start_time) {
  accel::v1::Node node;
  node.set_version(ACCEL_VERSION);
  char host_name[HOST_NAME_MAX + 1] = {};
  if (gethostname(host_name, HOST_NAME_MAX) == 0) node.set_host_name(host_name);
  node.set_pid(getpid());
  *node.mutable_start_time() =
      google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(start_time));
  node.set_state_dir(options.state_dir.string());
  node.set_cpu_cores(UsableCores());
  node.set_memory_bytes(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  node.set_cuda_devices(CountCudaDevices());
  node.set_max_world_size(options.max_world_size);
  node.set_max_ranks(options.max_ranks);
  for (const auto& [name, path] : options.data_roots) {
    accel::v1::Node::DataRoot* const root = node.add_data_roots();
    root->set_name(name);
    root->set_path(path.string());
  }
  if (!options.secrets_file.empty()) {
    if (const auto secrets = ReadSecretsFile(options.secrets_file); secrets.ok()) {
      for (const auto& [name, value] : *secrets) node.add_secret_names(name);
    }
  }
  for (const auto& [name, url] : options.custom_trackers) node.add_custom_trackers(name);
  for (const std::string& network : options.rendezvous_networks) {
    node.add_rendezvous_networks(network);
  }
  node.set_rendezvous_root(options.rendezvous_root.string());
  return node;
}

}  // namespace accel::daemon
