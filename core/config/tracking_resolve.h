#ifndef ACCEL_CORE_CONFIG_TRACKING_RESOLVE_H_
#define ACCEL_CORE_CONFIG_TRACKING_RESOLVE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "accel/v1/tracker.pb.h"
#include "core/base/errors.h"

namespace accel::config {

// What a node has for trackers.
struct TrackerNode {
  std::set<std::string> secret_names;
  // Settings under the names of the trackers' own environment variables.
  std::map<std::string, std::string> environment;
  // Names of the trackers that the operator registered.
  std::set<std::string> custom;
  // Addresses that jobs may send the node's secrets to, beside the node's own settings.
  std::set<std::string> urls;
};

struct ResolvedTracking {
  // `trackers` holds what `log_with` named too; `log_with` is empty.
  accel::v1::TrackingSpec tracking;
  // Trackers that were asked for by name and that this node cannot serve, each with its reason.
  std::vector<std::string> warnings;
};

// What Accelerate's filter_trackers does, with a word for everything that it leaves out silently.
// "all" stands for every built-in tracker that the node can serve, never for registered ones. Adds
// to `violations`: names that nobody knows, trackers with options that the node cannot serve, and
// addresses to which the node's secrets may not go. `path` is that of the TrackingSpec.
ResolvedTracking ResolveTracking(const accel::v1::TrackingSpec& tracking, const TrackerNode& node,
                                 const std::string& path, FieldViolations* violations);

// Whether the operator may register a tracker under this name: INVALID_ARGUMENT for one that is no
// name, or that is taken by a tracker of Accelerate's, its archive or "all".
absl::Status CheckCustomTrackerName(const std::string& name);

// The environment variables of trackers that a node may set.
const std::set<std::string>& TrackerVariables();
// INVALID_ARGUMENT, with what is allowed, for another one or a value that its tracker would refuse.
absl::Status CheckTrackerVariable(const std::string& name, const std::string& value);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_TRACKING_RESOLVE_H_
