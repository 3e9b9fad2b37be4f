#ifndef ACCEL_CORE_TRACKING_SWANLAB_MAKE_H_
#define ACCEL_CORE_TRACKING_SWANLAB_MAKE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::swanlab {

// The run folder in every mode but "disabled", and before it the service in mode "cloud". From the
// job's options, then the node's settings (SWANLAB_MODE, SWANLAB_WORKSPACE, SWANLAB_EXP_NAME,
// SWANLAB_API_HOST).
absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::SwanLabTracker& spec, const TrackerContext& context);

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_MAKE_H_
