#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "core/engine/optim/optimizers.h"

namespace accel::engine {
namespace {

class AdagradOptimizer final : public GroupedOptimizer {
 public:
  AdagradOptimizer(const accel::v1::Adagrad& spec, std::vector<GroupedParameter> parameters)
      : GroupedOptimizer(spec.has_lr() ? spec.lr() : 1e-2, spec.weight_decay(),
                         std::move(parameters)),
        spec_(spec),
        eps_(spec.has_eps() ? spec.eps() : 1e-10) {}

  absl::string_view name() const override { return "adagrad"; }

 private:
  void UpdateGroup(const Slots& slots, double weight_decay, const GradientScale& scale) override {
    for (Slot* slot : slots) {
      if (slot->state.empty()) Begin(*slot);
    }
    const std::vector<at::Tensor> steps = States(slots, "step");
    at::_foreach_add_(steps, 1);
    at::_fused_adagrad_(Parameters(slots), Gradients(slots), States(slots, "sum"), steps,
                        learning_rate(), spec_.lr_decay(), weight_decay, eps_, spec_.maximize(),
                        scale.scale, scale.found_inf);
    if (scale.found_inf.has_value()) {
      at::_foreach_sub_(steps, std::vector<at::Tensor>(steps.size(), *scale.found_inf));
    }
  }

  void Begin(Slot& slot) const {
    const at::Tensor& parameter = slot.parameter.tensor;
    slot.state["step"] = at::zeros({}, at::TensorOptions(at::kFloat).device(parameter.device()));
    slot.state["sum"] = at::full_like(parameter, spec_.initial_accumulator_value());
  }

  std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const override {
    return {{"step", {}}, {"sum", parameter.sizes().vec()}};
  }

  const accel::v1::Adagrad spec_;
  const double eps_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(const accel::v1::Adagrad& spec,
                                       std::vector<GroupedParameter> parameters) {
  return std::make_unique<AdagradOptimizer>(spec, std::move(parameters));
}

}  // namespace accel::engine
