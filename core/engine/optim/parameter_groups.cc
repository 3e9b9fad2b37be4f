#include "core/engine/optim/parameter_groups.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

// `<layer>.<name>`; a parameter of the model itself has an empty layer.
std::pair<std::string, std::string> Split(const std::string& full_name) {
  const size_t dot = full_name.rfind('.');
  if (dot == std::string::npos) return {"", full_name};
  return {full_name.substr(0, dot), full_name.substr(dot + 1)};
}

std::set<std::string> NormLayers(const std::vector<NamedParameter>& parameters) {
  std::set<std::string> layers;
  for (const NamedParameter& parameter : parameters) {
    const auto [layer, name] = Split(parameter.name);
    if (name == "weight" && parameter.tensor.dim() == 1) layers.insert(layer);
  }
  return layers;
}

}  // namespace

absl::StatusOr<std::vector<GroupedParameter>> GroupParameters(
    const accel::v1::NoDecay& no_decay, std::vector<NamedParameter> parameters) {
  for (const std::string& text : no_decay.name_contains()) {
    const auto contains = [&](const NamedParameter& parameter) {
      return absl::StrContains(parameter.name, text);
    };
    if (std::none_of(parameters.begin(), parameters.end(), contains)) {
      return absl::InvalidArgumentError(absl::StrCat("optimizer.no_decay.name_contains: \"", text,
                                                     "\" is in the name of no parameter"));
    }
  }
  const std::set<std::string> norm_layers = NormLayers(parameters);
  const auto decays = [&](const std::string& full_name) {
    const auto [layer, name] = Split(full_name);
    if (no_decay.biases() && name == "bias") return false;
    if (no_decay.norms() && norm_layers.count(layer) > 0) return false;
    return std::none_of(
        no_decay.name_contains().begin(), no_decay.name_contains().end(),
        [&](const std::string& text) { return absl::StrContains(full_name, text); });
  };
  std::vector<GroupedParameter> grouped;
  grouped.reserve(parameters.size());
  for (NamedParameter& parameter : parameters) {
    const bool with_decay = decays(parameter.name);
    grouped.push_back({std::move(parameter), with_decay});
  }
  return grouped;
}

}  // namespace accel::engine
