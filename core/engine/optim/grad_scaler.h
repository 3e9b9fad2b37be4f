#ifndef ACCEL_CORE_ENGINE_OPTIM_GRAD_SCALER_H_
#define ACCEL_CORE_ENGINE_OPTIM_GRAD_SCALER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accel/v1/kwargs.pb.h"
#include "core/engine/optim/optimizer.h"

namespace accel::engine {

// Dynamic loss scaling for one optimizer, as torch.amp.GradScaler does it: the loss is multiplied
// by a scale so that small gradients survive float16, and a step whose gradients overflowed is
// skipped and shrinks the scale. One step is Scale, backward, Unscale where gradients are looked at
// in between, Step, Update. Not thread-safe.
class GradScaler {
 public:
  // Where a scaler stands.
  struct State {
    double scale = 0;  // of float32
    // Steps without overflow since the scale last changed.
    int64_t growth_tracker = 0;
    int64_t skipped_steps = 0;

    bool operator==(const State&) const = default;
  };

  // `kwargs` is resolved: every field is set and lies in its range. `parameters` are the
  // optimizer's; their gradients are not float16. With enabled = false Scale is the identity, Step
  // only calls the optimizer and the others do nothing.
  GradScaler(const accel::v1::GradScalerKwargs& kwargs, std::vector<at::Tensor> parameters,
             at::Device device);

  bool enabled() const { return enabled_; }

  // `loss` times the scale.
  at::Tensor Scale(const at::Tensor& loss) const;

  // Divides the gradients by the scale, in place, so that they can be clipped. At most once before
  // each Update.
  void Unscale();

  // Steps the optimizer with unscaled gradients unless one is not finite; says whether it did.
  // Waits for the device.
  bool Step(Optimizer& optimizer);

  // After Step: shrinks the scale after an overflow, lets it grow after growth_interval steps
  // without one. A scale that would be infinite stays.
  void Update();

  // The present scale. Waits for the device.
  double scale() const;

  // Steps that overflowed.
  int64_t skipped_steps() const { return skipped_steps_; }

  // Waits for the device.
  State Save() const;
  void Restore(const State& state);

 private:
  // Multiplies the gradients and notes whether one is not finite.
  void CheckAndMultiply(const at::Tensor& factor);

  const bool enabled_;
  const double growth_factor_;
  const double backoff_factor_;
  const int64_t growth_interval_;
  const std::vector<at::Tensor> parameters_;
  bool unscaled_ = false;
  int64_t skipped_steps_ = 0;
  at::Tensor scale_;           // float32 scalar
  at::Tensor growth_tracker_;  // int32 scalar
  at::Tensor found_inf_;       // float32 scalar, 0 or 1
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_GRAD_SCALER_H_
