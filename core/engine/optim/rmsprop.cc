#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "core/engine/optim/optimizers.h"

namespace accel::engine {
namespace {

class RmsPropOptimizer final : public GroupedOptimizer {
 public:
  RmsPropOptimizer(const accel::v1::RmsProp& spec, std::vector<GroupedParameter> parameters)
      : GroupedOptimizer(spec.has_lr() ? spec.lr() : 1e-2, spec.weight_decay(),
                         std::move(parameters)),
        spec_(spec),
        alpha_(spec.has_alpha() ? spec.alpha() : 0.99),
        eps_(spec.has_eps() ? spec.eps() : 1e-8),
        momentum_(spec.momentum()) {}

  absl::string_view name() const override { return "rmsprop"; }

  void set_momentum(double value) override { momentum_ = value; }

 private:
  // There is no fused kernel that would look at the scale: what torch.amp.GradScaler does around an
  // optimizer without one.
  void UpdateGroup(const Slots& slots, double weight_decay, const GradientScale& scale) override {
    if (scale.found_inf.has_value() && scale.found_inf->item<double>() != 0) return;
    for (Slot* slot : slots) {
      if (slot->state.empty()) Begin(*slot);
    }
    at::_foreach_add_(States(slots, "step"), 1);
    const std::vector<at::Tensor> parameters = Parameters(slots);
    const std::vector<at::Tensor> gradients =
        EffectiveGradients(slots, parameters, weight_decay, scale);
    const std::vector<at::Tensor> average = RootMeanSquare(slots, gradients);
    if (momentum_ > 0) {
      const std::vector<at::Tensor> buffers = States(slots, "momentum_buffer");
      at::_foreach_mul_(buffers, momentum_);
      at::_foreach_addcdiv_(buffers, gradients, average);
      at::_foreach_add_(parameters, buffers, -learning_rate());
    } else {
      at::_foreach_addcdiv_(parameters, gradients, average, -learning_rate());
    }
  }

  std::vector<at::Tensor> EffectiveGradients(const Slots& slots,
                                             const std::vector<at::Tensor>& parameters,
                                             double weight_decay,
                                             const GradientScale& scale) const {
    std::vector<at::Tensor> gradients = Gradients(slots);
    if (scale.scale.has_value()) {
      gradients = at::_foreach_mul(
          gradients, scale.scale->to(at::kDouble).reciprocal().to(gradients.front().scalar_type()));
    }
    if (spec_.maximize()) gradients = at::_foreach_neg(gradients);
    if (weight_decay != 0) gradients = at::_foreach_add(gradients, parameters, weight_decay);
    return gradients;
  }

  // Moves the averages on; returns what gradients are divided by.
  std::vector<at::Tensor> RootMeanSquare(const Slots& slots,
                                         const std::vector<at::Tensor>& gradients) const {
    const std::vector<at::Tensor> squares = States(slots, "square_avg");
    at::_foreach_mul_(squares, alpha_);
    at::_foreach_addcmul_(squares, gradients, gradients, 1 - alpha_);
    std::vector<at::Tensor> average;
    if (spec_.centered()) {
      const std::vector<at::Tensor> means = States(slots, "grad_avg");
      at::_foreach_lerp_(means, gradients, 1 - alpha_);
      average = at::_foreach_addcmul(squares, means, means, -1);
      at::_foreach_sqrt_(average);
    } else {
      average = at::_foreach_sqrt(squares);
    }
    at::_foreach_add_(average, eps_);
    return average;
  }

  void Begin(Slot& slot) const {
    const at::Tensor& parameter = slot.parameter.tensor;
    slot.state["step"] = at::zeros({}, at::TensorOptions(at::kFloat));
    slot.state["square_avg"] = at::zeros_like(parameter);
    if (momentum_ > 0) slot.state["momentum_buffer"] = at::zeros_like(parameter);
    if (spec_.centered()) slot.state["grad_avg"] = at::zeros_like(parameter);
  }

  std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const override {
    const std::vector<int64_t> shape = parameter.sizes().vec();
    std::map<std::string, std::vector<int64_t>> shapes{{"step", {}}, {"square_avg", shape}};
    if (momentum_ > 0) shapes["momentum_buffer"] = shape;
    if (spec_.centered()) shapes["grad_avg"] = shape;
    return shapes;
  }

  const accel::v1::RmsProp spec_;
  const double alpha_;
  const double eps_;
  double momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeRmsProp(const accel::v1::RmsProp& spec,
                                       std::vector<GroupedParameter> parameters) {
  return std::make_unique<RmsPropOptimizer>(spec, std::move(parameters));
}

}  // namespace accel::engine
