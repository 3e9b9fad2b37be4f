#ifndef ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_LIBRARY_H_
#define ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/plugin/accel_tracker.h"

namespace accel::tracking {

// Loads the shared object at `path`, for the life of the process. What is loaded is what was
// hashed, whatever becomes of the file meanwhile. FAILED_PRECONDITION when the contents have
// another SHA-256 than `sha256` or the dynamic linker refuses them; INVALID_ARGUMENT, with the
// attributes' names, when the plug-in misses some or has some that are not allowed.
absl::StatusOr<const accel_tracker_plugin*> LoadTrackerPlugin(const std::string& path,
                                                              absl::string_view sha256);

// The checks of the attributes alone.
absl::Status CheckTrackerPlugin(const accel_tracker_plugin& plugin);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_LIBRARY_H_
