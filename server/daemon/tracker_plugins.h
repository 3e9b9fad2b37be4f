#ifndef ACCEL_SERVER_DAEMON_TRACKER_PLUGINS_H_
#define ACCEL_SERVER_DAEMON_TRACKER_PLUGINS_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/internal/v1/tracker_plugin.pb.h"
#include "core/base/process.h"
#include "server/daemon/options.h"

namespace accel::daemon {

// Asks each plug-in, in a process of the supervisor's program, for its attributes; by name. What
// Accelerate's register_tracker_class refuses is INVALID_ARGUMENT: a missing name or attribute,
// and, where Accelerate only warns, a name that another tracker has.
absl::StatusOr<std::map<std::string, accel::internal::v1::TrackerPlugin>> RegisterTrackerPlugins(
    const DaemonOptions& options, ProcessLauncher* launcher);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_TRACKER_PLUGINS_H_
