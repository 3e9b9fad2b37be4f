#include "core/engine/optim/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/optim/optimizers.h"
#include "core/engine/optim/parameter_groups.h"

namespace accel::engine {

Optimizer::Optimizer(double learning_rate, double weight_decay,
                     std::vector<GroupedParameter> parameters)
    : learning_rate_(learning_rate), weight_decay_(weight_decay) {
  for (GroupedParameter& entry : parameters) {
    slots_.push_back({std::move(entry.parameter), entry.decays, {}});
  }
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const accel::v1::OptimizerSpec& spec, std::vector<NamedParameter> parameters) {
  using accel::v1::OptimizerSpec;
  ACCEL_ASSIGN_OR_RETURN(std::vector<GroupedParameter> grouped,
                         GroupParameters(spec.no_decay(), std::move(parameters)));
  switch (spec.optimizer_case()) {
    case OptimizerSpec::kSgd:
      return MakeSgd(spec.sgd(), std::move(grouped));
    case OptimizerSpec::kAdam:
      return MakeAdam(spec.adam(), std::move(grouped));
    case OptimizerSpec::kAdamw:
      return MakeAdamW(spec.adamw(), std::move(grouped));
    case OptimizerSpec::kAdagrad:
      return MakeAdagrad(spec.adagrad(), std::move(grouped));
    case OptimizerSpec::kRmsprop:
      return MakeRmsProp(spec.rmsprop(), std::move(grouped));
    case OptimizerSpec::kLbfgs:
    case OptimizerSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer is missing, allowed are sgd, adam, adamw, adagrad and rmsprop");
}

void Optimizer::Step(const GradientScale& scale) {
  at::NoGradGuard no_grad;
  Slots with_decay;
  Slots without_decay;
  for (Slot& slot : slots_) {
    if (!slot.parameter.tensor.grad().defined()) continue;
    (slot.decays ? with_decay : without_decay).push_back(&slot);
  }
  if (!with_decay.empty()) Update(with_decay, weight_decay_, scale);
  if (!without_decay.empty()) Update(without_decay, /*weight_decay=*/0, scale);
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
