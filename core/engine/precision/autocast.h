#ifndef ACCEL_CORE_ENGINE_PRECISION_AUTOCAST_H_
#define ACCEL_CORE_ENGINE_PRECISION_AUTOCAST_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/kwargs.pb.h"
#include "core/engine/optim/optimizer.h"

namespace accel::engine {

// Automatic mixed precision of a forward pass, as Accelerate wraps a prepared model's forward:
// torch.autocast around it, then its output in float32. Parameters, gradients and what follows the
// forward pass stay in float32. "fp16" on a CPU is torch.autocast("cpu", torch.float16).
class Autocast {
 public:
  // For a resolved `config`. With mixed_precision "no" (or none) Run only calls its argument.
  // UNIMPLEMENTED for the mode "fp8".
  static absl::StatusOr<Autocast> Create(const accel::v1::AcceleratorConfig& config,
                                         at::DeviceType device);

  // float32, changes nothing.
  Autocast() = default;

  // The result of `forward` with casts; float32 where it came in half precision. What `forward`
  // throws passes, with autocast as it was before.
  at::Tensor Run(const std::function<at::Tensor()>& forward) const;

 private:
  at::DeviceType device_ = at::kCPU;
  // Absent: no autocast.
  std::optional<at::ScalarType> dtype_;
  bool enabled_ = false;
  // Absent: as the thread has it.
  std::optional<bool> cache_enabled_;
};

// Whether mixed_precision "fp16" can train `parameters`: INVALID_ARGUMENT names the first one that
// is float16 itself.
absl::Status CheckMasterWeights(const accel::v1::AcceleratorConfig& config,
                                const std::vector<NamedParameter>& parameters);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_PRECISION_AUTOCAST_H_
