#include "core/engine/distributed/local_sgd.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace accel::engine {

LocalSgd::LocalSgd(int64_t period, std::vector<at::Tensor> parameters, Communicator& communicator)
    : period_(period), parameters_(std::move(parameters)), communicator_(communicator) {}

void LocalSgd::OnStep(int64_t step) {
  apart_ = true;
  if (step % period_ == 0) Average();
}

void LocalSgd::Average() {
  at::NoGradGuard no_grad;
  communicator_.Barrier();
  for (const at::Tensor& parameter : parameters_) {
    at::Tensor sum = parameter.detach();
    communicator_.AllReduceSum(sum);
    sum.div_(communicator_.world_size());
  }
  apart_ = false;
}

LocalSgd::Averaged::Averaged(LocalSgd& local) : local_(local) {
  if (!local.apart()) return;
  for (const at::Tensor& parameter : local.parameters_) own_.push_back(parameter.detach().clone());
  local.Average();
}

LocalSgd::Averaged::~Averaged() {
  if (own_.empty()) return;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < own_.size(); ++i) local_.parameters_[i].copy_(own_[i]);
  local_.set_apart(true);
}

}  // namespace accel::engine
