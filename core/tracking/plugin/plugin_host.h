#ifndef ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_HOST_H_
#define ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_HOST_H_

#include "absl/status/status.h"
#include "core/base/fd.h"
#include "core/tracking/plugin/accel_tracker.h"

namespace accel::tracking {

// What the process of a plug-in does: takes calls from `channel` and answers each, until the other
// end is closed (OK).
absl::Status ServeTrackerPlugin(const accel_tracker_plugin& plugin, Fd channel);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_HOST_H_
