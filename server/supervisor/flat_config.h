#ifndef ACCEL_SERVER_SUPERVISOR_FLAT_CONFIG_H_
#define ACCEL_SERVER_SUPERVISOR_FLAT_CONFIG_H_

#include "accel/v1/job.pb.h"
#include "core/tracking/tracker.h"

namespace accel::supervisor {

// A job's configuration as hyper-parameters for trackers: every field that is set in its spec and
// its resolved accelerator, by path (`accelerator.ddp_kwargs.bucket_cap_mb`, `model.mlp.dropout`),
// then the entries of `tracking.config` by their own names, which win. Lists of scalars become text
// (`[784,128,10]`), durations seconds, enumerations names; entries of other lists have their index
// in the path.
tracking::ConfigMap FlatConfig(const accel::v1::Job& job);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_FLAT_CONFIG_H_
