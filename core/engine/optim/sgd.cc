#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>

#include <utility>

#include "core/engine/optim/optimizers.h"

namespace accel::engine {
namespace {

class SgdOptimizer final : public GroupedOptimizer {
 public:
  SgdOptimizer(const accel::v1::Sgd& spec, std::vector<GroupedParameter> parameters)
      : GroupedOptimizer(spec.has_lr() ? spec.lr() : 1e-3, spec.weight_decay(),
                         std::move(parameters)),
        spec_(spec),
        momentum_(spec.momentum()) {}

  absl::string_view name() const override { return "sgd"; }

  void set_momentum(double value) override { momentum_ = value; }

 private:
  static constexpr char kMomentum[] = "momentum_buffer";

  // The kernel takes one answer to "is this the first step" for all it is given, so parameters
  // whose first gradient comes now go by themselves.
  void UpdateGroup(const Slots& slots, double weight_decay, const GradientScale& scale) override {
    if (momentum_ == 0) {
      return Launch(slots, {}, weight_decay, /*is_first_step=*/false, scale);
    }
    Slots begun;
    Slots fresh;
    for (Slot* slot : slots) (slot->state.count(kMomentum) > 0 ? begun : fresh).push_back(slot);
    for (Slot* slot : fresh) {
      slot->state[kMomentum] = at::empty_like(slot->parameter.tensor.grad());
    }
    const auto launch = [&](const Slots& part, bool is_first_step) {
      if (part.empty()) return;
      Launch(part, States(part, kMomentum), weight_decay, is_first_step, scale);
    };
    launch(begun, /*is_first_step=*/false);
    launch(fresh, /*is_first_step=*/true);
  }

  void Launch(const Slots& slots, const std::vector<at::Tensor>& momentum, double weight_decay,
              bool is_first_step, const GradientScale& scale) {
    at::_fused_sgd_(Parameters(slots), Gradients(slots), momentum, weight_decay, momentum_,
                    learning_rate(), spec_.dampening(), spec_.nesterov(), spec_.maximize(),
                    is_first_step, scale.scale, scale.found_inf);
  }

  std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const override {
    if (momentum_ == 0) return {};
    return {{kMomentum, parameter.sizes().vec()}};
  }

  const accel::v1::Sgd spec_;
  double momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const accel::v1::Sgd& spec,
                                   std::vector<GroupedParameter> parameters) {
  return std::make_unique<SgdOptimizer>(spec, std::move(parameters));
}

}  // namespace accel::engine
