#include "core/engine/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace accel::engine {
namespace {

// Presence decides where the configuration's default is not zero.
template <typename Spec>
double LearningRate(const Spec& spec) {
  return spec.has_lr() ? spec.lr() : 1e-3;
}

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const accel::v1::Sgd& spec, std::vector<NamedParameter> parameters)
      : Optimizer(LearningRate(spec), std::move(parameters)), spec_(spec) {}

  absl::string_view name() const override { return "sgd"; }

 private:
  static constexpr char kMomentum[] = "momentum_buffer";

  // The kernel takes one answer to "is this the first step" for all it is given, so parameters
  // whose first gradient comes now go by themselves.
  void Update(const Slots& slots, const GradientScale& scale) override {
    if (spec_.momentum() == 0) return Launch(slots, {}, /*is_first_step=*/false, scale);
    Slots begun;
    Slots fresh;
    for (Slot* slot : slots) (slot->state.count(kMomentum) > 0 ? begun : fresh).push_back(slot);
    for (Slot* slot : fresh) {
      slot->state[kMomentum] = at::empty_like(slot->parameter.tensor.grad());
    }
    if (!begun.empty()) Launch(begun, States(begun, kMomentum), /*is_first_step=*/false, scale);
    if (!fresh.empty()) Launch(fresh, States(fresh, kMomentum), /*is_first_step=*/true, scale);
  }

  void Launch(const Slots& slots, const std::vector<at::Tensor>& momentum, bool is_first_step,
              const GradientScale& scale) {
    at::_fused_sgd_(Parameters(slots), Gradients(slots), momentum, spec_.weight_decay(),
                    spec_.momentum(), learning_rate(), spec_.dampening(), spec_.nesterov(),
                    /*maximize=*/false, is_first_step, scale.scale, scale.found_inf);
  }

  std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const override {
    if (spec_.momentum() == 0) return {};
    return {{kMomentum, parameter.sizes().vec()}};
  }

  const accel::v1::Sgd spec_;
};

// Adam and AdamW differ in their kernel and in the default of weight_decay.
template <typename Spec>
class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const Spec& spec, std::vector<NamedParameter> parameters)
      : Optimizer(LearningRate(spec), std::move(parameters)),
        beta1_(spec.has_beta1() ? spec.beta1() : 0.9),
        beta2_(spec.has_beta2() ? spec.beta2() : 0.999),
        eps_(spec.has_eps() ? spec.eps() : 1e-8),
        weight_decay_(spec.has_weight_decay() ? spec.weight_decay() : (kDecoupled ? 0.01 : 0.0)),
        amsgrad_(spec.amsgrad()) {}

  absl::string_view name() const override { return kDecoupled ? "adamw" : "adam"; }

 private:
  static constexpr bool kDecoupled = std::is_same_v<Spec, accel::v1::AdamW>;
  template <typename... Args>
  static void Launch(const Args&... args) {
    if constexpr (kDecoupled) {
      at::_fused_adamw_(args...);
    } else {
      at::_fused_adam_(args...);
    }
  }

  void Update(const Slots& slots, const GradientScale& scale) override {
    for (Slot* slot : slots) {
      if (slot->state.empty()) Begin(*slot);
    }
    const std::vector<at::Tensor> steps = States(slots, "step");
    at::_foreach_add_(steps, 1);
    Launch(Parameters(slots), Gradients(slots), States(slots, "exp_avg"),
           States(slots, "exp_avg_sq"),
           amsgrad_ ? States(slots, "max_exp_avg_sq") : std::vector<at::Tensor>{}, steps,
           learning_rate(), beta1_, beta2_, weight_decay_, eps_, amsgrad_, /*maximize=*/false,
           scale.scale, scale.found_inf);
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

  const double beta1_;
  const double beta2_;
  const double eps_;
  const double weight_decay_;
  const bool amsgrad_;
};

}  // namespace

Optimizer::Optimizer(double learning_rate, std::vector<NamedParameter> parameters)
    : learning_rate_(learning_rate) {
  for (NamedParameter& parameter : parameters) slots_.push_back({std::move(parameter), {}});
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const accel::v1::OptimizerSpec& spec, std::vector<NamedParameter> parameters) {
  using accel::v1::OptimizerSpec;
  switch (spec.optimizer_case()) {
    case OptimizerSpec::kSgd:
      return std::make_unique<SgdOptimizer>(spec.sgd(), std::move(parameters));
    case OptimizerSpec::kAdam:
      return std::make_unique<AdamOptimizer<accel::v1::Adam>>(spec.adam(), std::move(parameters));
    case OptimizerSpec::kAdamw:
      return std::make_unique<AdamOptimizer<accel::v1::AdamW>>(spec.adamw(), std::move(parameters));
    case OptimizerSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("optimizer is missing, allowed are sgd, adam and adamw");
}

void Optimizer::Step(const GradientScale& scale) {
  at::NoGradGuard no_grad;
  Slots slots;
  for (Slot& slot : slots_) {
    if (slot.parameter.tensor.grad().defined()) slots.push_back(&slot);
  }
  if (!slots.empty()) Update(slots, scale);
}

void Optimizer::ZeroGrad() {
  for (Slot& slot : slots_) slot.parameter.tensor.mutable_grad() = at::Tensor();
}

std::map<std::string, at::Tensor> Optimizer::State() const {
  std::map<std::string, at::Tensor> all;
  for (const Slot& slot : slots_) {
    for (const auto& [name, tensor] : slot.state) {
      all.emplace(absl::StrCat(slot.parameter.name, ".", name), tensor);
    }
  }
  return all;
}

absl::Status Optimizer::LoadState(const std::map<std::string, at::Tensor>& state) {
  std::vector<std::map<std::string, at::Tensor>> loaded(slots_.size());
  size_t used = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const NamedParameter& parameter = slots_[i].parameter;
    const auto shapes = SlotShapes(parameter.tensor);
    for (const auto& [slot, shape] : shapes) {
      const std::string key = absl::StrCat(parameter.name, ".", slot);
      const auto found = state.find(key);
      if (found == state.end()) continue;
      if (found->second.sizes().vec() != shape) {
        return absl::InvalidArgumentError(
            absl::StrCat("optimizer state ", key, " has shape [",
                         absl::StrJoin(found->second.sizes().vec(), ", "), "], allowed is [",
                         absl::StrJoin(shape, ", "), "]"));
      }
      loaded[i][slot] = found->second.to(parameter.tensor.device(), /*non_blocking=*/false,
                                         /*copy=*/true);
      ++used;
    }
    if (!loaded[i].empty() && loaded[i].size() != shapes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("optimizer state of ", parameter.name, " is incomplete for ", name()));
    }
  }
  if (used != state.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer state has ", state.size(), " tensors, ", name(), " knows ", used, " of them"));
  }
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].state = std::move(loaded[i]);
  return absl::OkStatus();
}

std::vector<at::Tensor> Optimizer::Parameters(const Slots& slots) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* slot : slots) tensors.push_back(slot->parameter.tensor);
  return tensors;
}

std::vector<at::Tensor> Optimizer::Gradients(const Slots& slots) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* slot : slots) tensors.push_back(slot->parameter.tensor.grad());
  return tensors;
}

std::vector<at::Tensor> Optimizer::States(const Slots& slots, const std::string& slot) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* entry : slots) tensors.push_back(entry->state.at(slot));
  return tensors;
}

}  // namespace accel::engine
