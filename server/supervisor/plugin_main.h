#ifndef ACCEL_SERVER_SUPERVISOR_PLUGIN_MAIN_H_
#define ACCEL_SERVER_SUPERVISOR_PLUGIN_MAIN_H_

#include <string>

namespace accel::supervisor {

// What accel-supervisor does as the process of a tracker plug-in: serves it on the channel that it
// was started with until the other end is closed. A plug-in that cannot be loaded refuses the first
// call with the reason. Returns the exit code.
int HostTrackerPlugin(const std::string& path, const std::string& sha256);

// Writes a serialized TrackerPlugin with the plug-in's attributes to stdout, or the reason why it
// cannot be used to stderr. Returns the exit code.
int DescribeTrackerPlugin(const std::string& path, const std::string& sha256);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_PLUGIN_MAIN_H_
