#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <utility>

#include "core/engine/distributed/power_sgd_state.h"

namespace accel::engine {

// PowerSGD (Vogels, Karimireddy, Jaggi: "PowerSGD: Practical low-rank gradient compression for
// distributed optimization", 2019), as torch's hooks of these names compute it: a matrix M of
// gradients is replaced by P Q^T of low rank, and only P and Q are summed over the ranks.
//
// The sums of one bucket need each other's results, and all ranks must start their collectives in
// the same order. So a compressed bucket is reduced before the hook returns (on CUDA: its work is
// in the stream), unlike in torch, whose callbacks may start them in different orders over Gloo.

// Makes the columns of each of `matrices` (batch, rows, columns; columns <= rows) orthonormal, in
// place: by Gram-Schmidt up to 2 columns and in 16 bits, else by QR. Gram-Schmidt adds `epsilon`
// to a column's norm; where that is 0 a column of zeros stays so with `guard`, else becomes NaN.
void Orthogonalize(const at::Tensor& matrices, double epsilon, bool guard);

// What both hooks share: iterations, start, and the future.
class PowerSgdHookBase : public c10d::CppCommHookInterface<std::shared_ptr<PowerSgdState>> {
 public:
  PowerSgdHookBase(c10::intrusive_ptr<c10d::ProcessGroup> group,
                   std::shared_ptr<PowerSgdState> state)
      : CppCommHookInterface(std::move(state)), group_(std::move(group)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) final;

 protected:
  // Replaces the contents of the bucket's buffer by their approximate mean.
  virtual void Compress(c10d::GradBucket& bucket) = 0;

  void AllReduceSum(const at::Tensor& tensor);
  void AllReduceMean(const at::Tensor& tensor);
  int world_size() const { return group_->getSize(); }

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

// Compresses each parameter's gradient as a matrix of its own, where that makes it smaller enough.
class PowerSgdHook : public PowerSgdHookBase {
 public:
  using PowerSgdHookBase::PowerSgdHookBase;

 protected:
  void Compress(c10d::GradBucket& bucket) override;
};

// Compresses a whole bucket as one square matrix, padded by zeros. Throws where the rank of the
// approximation is above the square's side.
class BatchedPowerSgdHook : public PowerSgdHookBase {
 public:
  using PowerSgdHookBase::PowerSgdHookBase;

 protected:
  void Compress(c10d::GradBucket& bucket) override;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_H_
