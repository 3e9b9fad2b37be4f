#include "core/engine/optim/clipping.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace accel::engine {
namespace {

std::vector<at::Tensor> Gradients(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

at::Tensor Norm(const std::vector<at::Tensor>& gradients) {
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
}

}  // namespace

double GradNorm(const std::vector<at::Tensor>& parameters) {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = Gradients(parameters);
  return gradients.empty() ? 0 : Norm(gradients).item<double>();
}

double ClipGradNorm(const std::vector<at::Tensor>& parameters, double max_norm) {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = Gradients(parameters);
  if (gradients.empty()) return 0;
  const at::Tensor norm = Norm(gradients);
  // The order of these operations is torch's: max_norm / t is reciprocal, then product.
  const at::Tensor factor = norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0);
  at::_foreach_mul_(gradients, factor);
  return norm.item<double>();
}

void ClipGradValue(const std::vector<at::Tensor>& parameters, double max_value) {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = Gradients(parameters);
  if (gradients.empty()) return;
  at::_foreach_clamp_min_(gradients, -max_value);
  at::_foreach_clamp_max_(gradients, max_value);
}

}  // namespace accel::engine
