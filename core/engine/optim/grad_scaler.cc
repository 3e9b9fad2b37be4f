#include "core/engine/optim/grad_scaler.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace accel::engine {

GradScaler::GradScaler(const accel::v1::GradScalerKwargs& kwargs,
                       std::vector<at::Tensor> parameters, at::Device device)
    : enabled_(kwargs.enabled()),
      growth_factor_(kwargs.growth_factor()),
      backoff_factor_(kwargs.backoff_factor()),
      growth_interval_(kwargs.growth_interval()),
      parameters_(std::move(parameters)),
      scale_(at::full({}, kwargs.init_scale(), at::TensorOptions(at::kFloat).device(device))),
      growth_tracker_(at::zeros({}, at::TensorOptions(at::kInt).device(device))),
      found_inf_(at::zeros({}, at::TensorOptions(at::kFloat).device(device))) {}

at::Tensor GradScaler::Scale(const at::Tensor& loss) const {
  return enabled_ ? loss * scale_ : loss;
}

void GradScaler::CheckAndMultiply(const at::Tensor& factor) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return;
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, factor);
}

void GradScaler::Unscale() {
  if (!enabled_) return;
  // The reciprocal in double: rounded once.
  CheckAndMultiply(scale_.to(at::kDouble).reciprocal().to(at::kFloat));
  unscaled_ = true;
}

bool GradScaler::Step(Optimizer& optimizer) {
  if (!enabled_) {
    optimizer.Step();
    return true;
  }
  if (!unscaled_) CheckAndMultiply(at::ones_like(scale_));
  if (found_inf_.item<float>() != 0) {
    ++skipped_steps_;
    return false;
  }
  // A fused kernel divides by the scale itself.
  optimizer.Step(unscaled_ ? GradientScale{} : GradientScale{.scale = scale_, .found_inf = {}});
  return true;
}

void GradScaler::Update() {
  if (!enabled_) return;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, growth_factor_, backoff_factor_,
                         growth_interval_);
  found_inf_.zero_();
  unscaled_ = false;
}

double GradScaler::scale() const { return scale_.item<double>(); }

GradScaler::State GradScaler::Save() const {
  return {.scale = scale(),
          .growth_tracker = growth_tracker_.item<int64_t>(),
          .skipped_steps = skipped_steps_};
}

void GradScaler::Restore(const State& state) {
  scale_.fill_(state.scale);
  growth_tracker_.fill_(state.growth_tracker);
  skipped_steps_ = state.skipped_steps;
}

}  // namespace accel::engine
