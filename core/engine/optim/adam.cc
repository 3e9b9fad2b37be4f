#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <type_traits>
#include <utility>

#include "core/engine/optim/optimizers.h"

namespace accel::engine {
namespace {

// Adam and AdamW differ in their names, their kernels and the default of weight_decay.
template <typename Spec>
class AdamOptimizer final : public GroupedOptimizer {
 public:
  AdamOptimizer(const Spec& spec, std::vector<GroupedParameter> parameters)
      : GroupedOptimizer(spec.has_lr() ? spec.lr() : 1e-3,
                         spec.has_weight_decay() ? spec.weight_decay() : (kAdamW ? 0.01 : 0.0),
                         std::move(parameters)),
        beta1_(spec.has_beta1() ? spec.beta1() : 0.9),
        beta2_(spec.has_beta2() ? spec.beta2() : 0.999),
        eps_(spec.has_eps() ? spec.eps() : 1e-8),
        amsgrad_(spec.amsgrad()),
        maximize_(spec.maximize()),
        decoupled_(IsDecoupled(spec)) {}

  absl::string_view name() const override { return kAdamW ? "adamw" : "adam"; }

  void set_momentum(double value) override { beta1_ = value; }

 private:
  static constexpr bool kAdamW = std::is_same_v<Spec, accel::v1::AdamW>;

  static bool IsDecoupled(const Spec& spec) {
    if constexpr (kAdamW) {
      return true;
    } else {
      return spec.decoupled_weight_decay();
    }
  }

  template <typename... Args>
  void Launch(const Args&... args) const {
    if (decoupled_) {
      at::_fused_adamw_(args...);
    } else {
      at::_fused_adam_(args...);
    }
  }

  void UpdateGroup(const Slots& slots, double weight_decay, const GradientScale& scale) override {
    for (Slot* slot : slots) {
      if (slot->state.empty()) Begin(*slot);
    }
    const std::vector<at::Tensor> steps = States(slots, "step");
    at::_foreach_add_(steps, 1);
    Launch(Parameters(slots), Gradients(slots), States(slots, "exp_avg"),
           States(slots, "exp_avg_sq"),
           amsgrad_ ? States(slots, "max_exp_avg_sq") : std::vector<at::Tensor>{}, steps,
           learning_rate(), beta1_, beta2_, weight_decay, eps_, amsgrad_, maximize_, scale.scale,
           scale.found_inf);
    if (scale.found_inf.has_value()) {
      at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *scale.found_inf));
    }
  }

  void Begin(Slot& slot) const {
    const at::Tensor& parameter = slot.parameter.tensor;
    slot.state["step"] = at::zeros({}, at::TensorOptions(at::kFloat).device(parameter.device()));
    for (const char* name : {"exp_avg", "exp_avg_sq"}) {
      slot.state[name] = at::zeros_like(parameter);
    }
    if (amsgrad_) slot.state["max_exp_avg_sq"] = at::zeros_like(parameter);
  }

  std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const override {
    const std::vector<int64_t> shape = parameter.sizes().vec();
    std::map<std::string, std::vector<int64_t>> shapes{
        {"step", {}}, {"exp_avg", shape}, {"exp_avg_sq", shape}};
    if (amsgrad_) shapes["max_exp_avg_sq"] = shape;
    return shapes;
  }

  double beta1_;
  const double beta2_;
  const double eps_;
  const bool amsgrad_;
  const bool maximize_;
  const bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const accel::v1::Adam& spec,
                                    std::vector<GroupedParameter> parameters) {
  return std::make_unique<AdamOptimizer<accel::v1::Adam>>(spec, std::move(parameters));
}

std::unique_ptr<Optimizer> MakeAdamW(const accel::v1::AdamW& spec,
                                     std::vector<GroupedParameter> parameters) {
  return std::make_unique<AdamOptimizer<accel::v1::AdamW>>(spec, std::move(parameters));
}

}  // namespace accel::engine
