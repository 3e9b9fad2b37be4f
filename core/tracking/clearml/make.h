#ifndef ACCEL_CORE_TRACKING_CLEARML_MAKE_H_
#define ACCEL_CORE_TRACKING_CLEARML_MAKE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::clearml {

// The offline session, and before it the server unless the job or the node's CLEARML_OFFLINE_MODE
// says offline. From the job's options, then the node's settings (CLEARML_PROJECT, CLEARML_TASK,
// CLEARML_API_HOST), then the tracking project.
absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::ClearMLTracker& spec, const TrackerContext& context);

}  // namespace accel::tracking::clearml

#endif  // ACCEL_CORE_TRACKING_CLEARML_MAKE_H_
