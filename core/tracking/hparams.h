#ifndef ACCEL_CORE_TRACKING_HPARAMS_H_
#define ACCEL_CORE_TRACKING_HPARAMS_H_

#include <string>

#include "absl/time/time.h"
#include "accel/internal/v1/tensorboard.pb.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// Records of TensorBoard's HParams plugin. Both go into the run's main file; with no experiment
// record beside them, the server finds the parameters and a column for every scalar by itself.

// The start of a run with its parameters. Numbers become doubles, numbers that are not finite
// become text, values of nothing are left out: the plugin has no other way to show them.
accel::internal::v1::tensorboard::Event SessionStartEvent(const ConfigMap& values, absl::Time now);

// The end of a run. A cancelled one counts as a failure, the plugin knowing no third way to end.
accel::internal::v1::tensorboard::Event SessionEndEvent(RunOutcome outcome, absl::Time now);

// The same parameters as YAML 1.1 that reads back with their types: one `key: value` a line,
// sorted by key.
std::string HParamsYaml(const ConfigMap& values);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HPARAMS_H_
