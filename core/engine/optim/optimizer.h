#ifndef ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_
#define ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/optimizer.pb.h"

namespace accel::engine {

// A parameter under its name in the model.
struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// A parameter and its group.
struct GroupedParameter {
  NamedParameter parameter;
  // Whether the optimizer's weight_decay applies to it.
  bool decays = true;
};

// What a gradient scaler hands to a step.
struct GradientScale {
  // Scalar by which the step divides the gradients.
  std::optional<at::Tensor> scale;
  // Scalar that is 1 where a gradient overflowed: the step then changes nothing.
  std::optional<at::Tensor> found_inf;
};

// An optimizer of torch.optim, with fused=True where there is such a kernel: the same operators in
// the same order, the same state. State is made for a parameter at its first step with a gradient;
// parameters without one are left alone.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // `parameters` are trainable. INVALID_ARGUMENT when no optimizer is chosen, or when no_decay
  // names parameters that there are not.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const accel::v1::OptimizerSpec& spec,
                                                           std::vector<NamedParameter> parameters);

  // "sgd", "adam", "adamw", "adagrad" or "rmsprop".
  virtual absl::string_view name() const = 0;

  // Updates the parameters from their gradients.
  void Step(const GradientScale& scale = {});

  // Drops the gradients.
  void ZeroGrad();

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double value) { learning_rate_ = value; }

  // The state's tensors themselves by `<parameter>.<slot>`, slots as torch.optim names them
  // (`exp_avg`, `step`, ...).
  std::map<std::string, at::Tensor> State() const;

  // Replaces the state by copies of `state`, which is what State() gave. INVALID_ARGUMENT names the
  // first tensor that does not fit; the state is then as it was.
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state);

 protected:
  // A parameter with its gradient and its state by slot.
  struct Slot {
    NamedParameter parameter;
    bool decays = true;
    std::map<std::string, at::Tensor> state;
  };
  using Slots = std::vector<Slot*>;

  Optimizer(double learning_rate, double weight_decay, std::vector<GroupedParameter> parameters);

  // Steps the parameters `slots`, at least one, all of which have a gradient and are of one group.
  // Runs without a graph.
  virtual void Update(const Slots& slots, double weight_decay, const GradientScale& scale) = 0;

  // Names of the state's tensors, and the shape of each for `parameter`.
  virtual std::map<std::string, std::vector<int64_t>> SlotShapes(
      const at::Tensor& parameter) const = 0;

  static std::vector<at::Tensor> Parameters(const Slots& slots);
  static std::vector<at::Tensor> Gradients(const Slots& slots);
  static std::vector<at::Tensor> States(const Slots& slots, const std::string& slot);

 private:
  std::vector<Slot> slots_;
  double learning_rate_;
  const double weight_decay_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_
