#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_RANDOM_STATE_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_RANDOM_STATE_H_

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "core/engine/checkpoint/safetensors.h"

namespace accel::engine {

// States of the default generators of this process: the CPU's, and `device`'s where that is another
// one. Tensors by `cpu` and `cuda`.
NamedTensors CaptureRandomState(at::Device device);

// Restores what CaptureRandomState gave. INVALID_ARGUMENT where a state is missing.
absl::Status RestoreRandomState(const NamedTensors& state, at::Device device);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_RANDOM_STATE_H_
