#ifndef ACCEL_CORE_ENGINE_OPTIM_LBFGS_H_
#define ACCEL_CORE_ENGINE_OPTIM_LBFGS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/real.h"
#include "core/engine/optim/strong_wolfe.h"

namespace accel::engine {

// L-BFGS (Liu and Nocedal: "On the limited memory BFGS method for large scale optimization", 1989)
// as torch.optim.LBFGS computes it. Parameters are float32. Its state belongs to all parameters
// together: slots are named `all.<slot>`.
class LbfgsOptimizer final : public Optimizer {
 public:
  LbfgsOptimizer(const accel::v1::Lbfgs& spec, std::vector<NamedParameter> parameters);

  absl::string_view name() const override { return "lbfgs"; }
  bool needs_closure() const override { return true; }
  void StepWith(const Closure& closure) override;
  void ZeroGrad() override;
  std::map<std::string, at::Tensor> State() const override;
  absl::Status LoadState(const std::map<std::string, at::Tensor>& state) override;

 private:
  // What a step leaves to the next one.
  struct Memory {
    int64_t evaluations = 0;
    int64_t iterations = 0;
    // The direction of the last iteration, and how far it went; undefined before the first.
    at::Tensor direction;
    Real length;
    at::Tensor gradient;  // before that iteration
    // Changes of the gradient and of the parameters, the oldest ones first, and the reciprocals of
    // their products.
    std::deque<at::Tensor> gradient_changes;
    std::deque<at::Tensor> steps;
    std::deque<Real> reciprocals;
    // Scale of the first estimate of the inverse Hessian.
    Real scale = 1;
  };

  void Update(const GradientScale& scale) override;

  Evaluation Evaluate(const Closure& closure) const;
  at::Tensor FlatGradient() const;
  void Move(Real length, const at::Tensor& direction) const;
  // One iteration from `point`, which is then where it went; says whether to go on.
  bool Iterate(const Closure& closure, bool last, Evaluation* point, int64_t* evaluations);
  void TurnDirection(const at::Tensor& gradient);
  void RememberStep(const at::Tensor& gradient);
  static void ForgetOldest(Memory* memory);
  at::Tensor QuasiNewtonDirection(const at::Tensor& gradient) const;
  // Searches along the direction; `point` becomes where the search ended.
  int64_t SearchLine(const Closure& closure, Real slope, int64_t most_further, Evaluation* point);

  const std::vector<NamedParameter> parameters_;
  const int64_t max_iterations_;
  const int64_t max_evaluations_;
  const double tolerance_gradient_;
  const double tolerance_change_;
  const size_t history_size_;
  const bool searches_line_;
  const bool maximize_;
  Memory memory_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_LBFGS_H_
