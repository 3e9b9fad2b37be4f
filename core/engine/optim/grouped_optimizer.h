#ifndef ACCEL_CORE_ENGINE_OPTIM_GROUPED_OPTIMIZER_H_
#define ACCEL_CORE_ENGINE_OPTIM_GROUPED_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/optim/optimizer.h"

namespace accel::engine {

// A parameter and its group.
struct GroupedParameter {
  NamedParameter parameter;
  // Whether the optimizer's weight_decay applies to it.
  bool decays = true;
};

// An optimizer that updates each parameter by itself, in two groups that differ in weight decay.
// State is made for a parameter at its first step with a gradient; parameters without one are left
// alone.
class GroupedOptimizer : public Optimizer {
 public:
  void ZeroGrad() override;
  std::map<std::string, at::Tensor> State() const override;
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;

 protected:
  // A parameter with its gradient and its state by slot.
  struct Slot {
    NamedParameter parameter;
    bool decays = true;
    std::map<std::string, at::Tensor> state;
  };
  using Slots = std::vector<Slot*>;

  GroupedOptimizer(double learning_rate, double weight_decay,
                   std::vector<GroupedParameter> parameters);

  // Steps the parameters `slots`, at least one, all of which have a gradient and are of one group.
  // Runs without a graph.
  virtual void UpdateGroup(const Slots& slots, double weight_decay, const GradientScale& scale) = 0;

  // Names of the state's tensors, and the shape of each for `parameter`.
  virtual std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const = 0;

  static std::vector<at::Tensor> Parameters(const Slots& slots);
  static std::vector<at::Tensor> Gradients(const Slots& slots);
  static std::vector<at::Tensor> States(const Slots& slots, const std::string& slot);

 private:
  void Update(const GradientScale& scale) final;

  std::vector<Slot> slots_;
  const double weight_decay_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_GROUPED_OPTIMIZER_H_
