#include "server/supervisor/plugin_main.h"

#include <sys/prctl.h>

#include <csignal>
#include <iostream>

#include "accel/internal/v1/tracker_plugin.pb.h"
#include "core/base/message_channel.h"
#include "core/tracking/plugin/plugin_host.h"
#include "core/tracking/plugin/plugin_library.h"
#include "core/tracking/plugin/plugin_process.h"

namespace accel::supervisor {

using accel::internal::v1::FromTrackerPlugin;
using accel::internal::v1::ToTrackerPlugin;
using accel::internal::v1::TrackerPlugin;

int HostTrackerPlugin(const std::string& path, const std::string& sha256) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Fd channel(tracking::kPluginChannelFd);
  const auto plugin = tracking::LoadTrackerPlugin(path, sha256);
  if (plugin.ok()) return tracking::ServeTrackerPlugin(**plugin, std::move(channel)).ok() ? 0 : 1;
  MessageChannel messages(std::move(channel));
  ToTrackerPlugin call;
  FromTrackerPlugin answer;
  answer.set_result(ACCEL_REFUSED);
  answer.set_error(std::string(plugin.status().message()));
  if (messages.Receive(&call).ok()) messages.Send(answer).IgnoreError();
  return 1;
}

int DescribeTrackerPlugin(const std::string& path, const std::string& sha256) {
  const auto plugin = tracking::LoadTrackerPlugin(path, sha256);
  if (!plugin.ok()) {
    std::cerr << plugin.status().message();
    return 1;
  }
  TrackerPlugin description;
  description.set_path(path);
  description.set_sha256(sha256);
  description.set_name((*plugin)->name);
  description.set_requires_logging_directory((*plugin)->requires_logging_directory == ACCEL_YES);
  description.set_main_process_only((*plugin)->main_process_only != ACCEL_NO);
  description.set_rewind((*plugin)->rewind);
  return description.SerializeToOstream(&std::cout) ? 0 : 1;
}

}  // namespace accel::supervisor
