#include "core/engine/loop/local_sgd_section.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/model_files.h"

namespace accel::engine {
namespace {

constexpr char kModel[] = "model.";
constexpr char kOptimizer[] = "optimizer.";

SectionState Save(const LocalSgd::Averaged& averaged, const Model& model,
                  const Optimizer& optimizer) {
  SectionState state;
  state.values["apart"] = averaged.apart();
  size_t next = 0;
  for (const auto& item : model.named_parameters()) {
    state.tensors.emplace_back(absl::StrCat(kModel, item.key()), averaged.own()[next++].detach());
  }
  for (const auto& item : model.named_buffers()) {
    state.tensors.emplace_back(absl::StrCat(kModel, item.key()), item.value());
  }
  for (const auto& [name, tensor] : optimizer.State()) {
    state.tensors.emplace_back(absl::StrCat(kOptimizer, name), tensor);
  }
  return state;
}

absl::Status Restore(const SectionState& state, LocalSgd& local, Model& model,
                     Optimizer& optimizer) {
  NamedTensors weights;
  std::map<std::string, at::Tensor> optimizer_state;
  for (const auto& [full_name, tensor] : state.tensors) {
    absl::string_view name = full_name;
    if (absl::ConsumePrefix(&name, kModel)) {
      weights.emplace_back(name, tensor);
    } else if (absl::ConsumePrefix(&name, kOptimizer)) {
      optimizer_state.emplace(name, tensor);
    }
  }
  ACCEL_RETURN_IF_ERROR(CopyByName(weights, "local_sgd", StateDict(model)));
  ACCEL_RETURN_IF_ERROR(optimizer.LoadState(optimizer_state));
  local.set_apart(state.values.value("apart", false));
  return absl::OkStatus();
}

}  // namespace

StateSection LocalSgdSection(LocalSgd& local, const std::optional<LocalSgd::Averaged>& averaged,
                             Model& model, Optimizer& optimizer) {
  StateSection section;
  section.name = "local_sgd";
  section.per_rank = true;
  section.save = [&averaged, &model, &optimizer]() -> absl::StatusOr<SectionState> {
    return Save(*averaged, model, optimizer);
  };
  section.restore = [&local, &model, &optimizer](const SectionState& state) {
    return Restore(state, local, model, optimizer);
  };
  return section;
}

}  // namespace accel::engine
