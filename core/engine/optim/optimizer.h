#ifndef ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_
#define ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <functional>
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

// What a gradient scaler hands to a step.
struct GradientScale {
  // Scalar by which the step divides the gradients.
  std::optional<at::Tensor> scale;
  // Scalar that is 1 where a gradient overflowed: the step then changes nothing.
  std::optional<at::Tensor> found_inf;
};

// An optimizer of torch.optim, with fused=True where there is such a kernel: the same operators in
// the same order, the same state.
class Optimizer {
 public:
  // Replaces the gradients by those of the loss at the present parameters; returns the loss.
  using Closure = std::function<double()>;

  virtual ~Optimizer() = default;

  // `parameters` are trainable. INVALID_ARGUMENT when no optimizer is chosen, or when no_decay
  // names parameters that there are not.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const accel::v1::OptimizerSpec& spec,
                                                           std::vector<NamedParameter> parameters);

  // "sgd", "adam", "adamw", "adagrad", "rmsprop" or "lbfgs".
  virtual absl::string_view name() const = 0;

  // Whether a step looks at the loss in several points, so that only StepWith makes one.
  virtual bool needs_closure() const { return false; }

  // Updates the parameters from their gradients.
  void Step(const GradientScale& scale = {}) { Update(scale); }

  // Updates the parameters from what `closure`, which is called once or more often, computes.
  virtual void StepWith(const Closure& closure);

  // Drops the gradients.
  virtual void ZeroGrad() = 0;

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double value) { learning_rate_ = value; }

  // The momentum, or beta1 of Adam and AdamW, of the next steps. Nothing for the others.
  virtual void set_momentum(double /*value*/) {}

  // The state's tensors themselves by `<parameter>.<slot>`, slots as torch.optim names them
  // (`exp_avg`, `step`, ...).
  virtual std::map<std::string, at::Tensor> State() const = 0;

  // Replaces the state by copies of `state`, which is what State() gave. INVALID_ARGUMENT names the
  // first tensor that does not fit; the state is then as it was.
  virtual absl::Status LoadState(const std::map<std::string, at::Tensor>& state) = 0;

 protected:
  explicit Optimizer(double learning_rate) : learning_rate_(learning_rate) {}

 private:
  virtual void Update(const GradientScale& scale) = 0;

  double learning_rate_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_OPTIMIZER_H_
