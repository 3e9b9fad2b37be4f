#include "core/engine/optim/grouped_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace accel::engine {

GroupedOptimizer::GroupedOptimizer(double learning_rate, double weight_decay,
                                   std::vector<GroupedParameter> parameters)
    : Optimizer(learning_rate), weight_decay_(weight_decay) {
  for (GroupedParameter& entry : parameters) {
    slots_.push_back({std::move(entry.parameter), entry.decays, {}});
  }
}

void GroupedOptimizer::Update(const GradientScale& scale) {
  at::NoGradGuard no_grad;
  Slots with_decay;
  Slots without_decay;
  for (Slot& slot : slots_) {
    if (!slot.parameter.tensor.grad().defined()) continue;
    (slot.decays ? with_decay : without_decay).push_back(&slot);
  }
  if (!with_decay.empty()) UpdateGroup(with_decay, weight_decay_, scale);
  if (!without_decay.empty()) UpdateGroup(without_decay, /*weight_decay=*/0, scale);
}

void GroupedOptimizer::ZeroGrad() {
  for (Slot& slot : slots_) slot.parameter.tensor.mutable_grad() = at::Tensor();
}

std::map<std::string, at::Tensor> GroupedOptimizer::State() const {
  std::map<std::string, at::Tensor> all;
  for (const Slot& slot : slots_) {
    for (const auto& [name, tensor] : slot.state) {
      all.emplace(absl::StrCat(slot.parameter.name, ".", name), tensor);
    }
  }
  return all;
}

absl::Status GroupedOptimizer::LoadState(const std::map<std::string, at::Tensor>& state) {
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

std::vector<at::Tensor> GroupedOptimizer::Parameters(const Slots& slots) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* slot : slots) tensors.push_back(slot->parameter.tensor);
  return tensors;
}

std::vector<at::Tensor> GroupedOptimizer::Gradients(const Slots& slots) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* slot : slots) tensors.push_back(slot->parameter.tensor.grad());
  return tensors;
}

std::vector<at::Tensor> GroupedOptimizer::States(const Slots& slots, const std::string& slot) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots.size());
  for (const Slot* entry : slots) tensors.push_back(entry->state.at(slot));
  return tensors;
}

}  // namespace accel::engine
