#include "core/engine/checkpoint/random_state.h"

#include <ATen/Context.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

// Generators by the name of their state.
std::vector<std::pair<std::string, at::Generator>> Generators(at::Device device) {
  std::vector<std::pair<std::string, at::Generator>> generators{
      {"cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (device.is_cuda()) {
    generators.emplace_back("cuda", at::globalContext().defaultGenerator(device));
  }
  return generators;
}

}  // namespace

NamedTensors CaptureRandomState(at::Device device) {
  NamedTensors state;
  for (const auto& [name, generator] : Generators(device)) {
    state.emplace_back(name, generator.get_state());
  }
  return state;
}

absl::Status RestoreRandomState(const NamedTensors& state, at::Device device) {
  for (auto& [name, generator] : Generators(device)) {
    const at::Tensor* found = nullptr;
    for (const auto& [key, tensor] : state) {
      if (key == name) found = &tensor;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("random state of generator ", name, " is missing"));
    }
    generator.set_state(*found);
  }
  return absl::OkStatus();
}

}  // namespace accel::engine
