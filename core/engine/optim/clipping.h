#ifndef ACCEL_CORE_ENGINE_OPTIM_CLIPPING_H_
#define ACCEL_CORE_ENGINE_OPTIM_CLIPPING_H_

#include <ATen/core/Tensor.h>

#include <vector>

namespace accel::engine {

// The 2-norm over all gradients of `parameters`; 0 where there is none.
double GradNorm(const std::vector<at::Tensor>& parameters);

// Scales the gradients of `parameters` by min(1, max_norm / (norm + 1e-6)), where norm is the
// 2-norm over all of them, and returns norm: torch.nn.utils.clip_grad_norm_. 0 where there is no
// gradient.
double ClipGradNorm(const std::vector<at::Tensor>& parameters, double max_norm);

// Bounds each gradient value to [-max_value, max_value]: torch.nn.utils.clip_grad_value_.
void ClipGradValue(const std::vector<at::Tensor>& parameters, double max_value);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_CLIPPING_H_
