#ifndef ACCEL_CORE_TRACKING_COMET_MAKE_H_
#define ACCEL_CORE_TRACKING_COMET_MAKE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::comet {

// The offline archive, and before it the service unless `online` is false. Beside the service the
// archive makes an experiment of its own when it is uploaded, so that no point is there twice. From
// the job's options, then the node's settings (COMET_WORKSPACE, COMET_URL_OVERRIDE and
// COMET_START_*).
absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::CometMLTracker& spec, const TrackerContext& context);

}  // namespace accel::tracking::comet

#endif  // ACCEL_CORE_TRACKING_COMET_MAKE_H_
