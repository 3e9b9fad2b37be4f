#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_COMM_HOOKS_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_COMM_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "accel/v1/kwargs.pb.h"
#include "core/engine/distributed/power_sgd_state.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// The communication hooks of DistributedDataParallel, with the arithmetic and the collectives of
// torch/distributed/algorithms/ddp_comm_hooks. Every hook leaves its result, the gradients' mean,
// in the bucket's buffer and returns that; with a group on CUDA the future ends in stream order.

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// Replaces `buffer` by its mean over the ranks, in its own type: divides first, then sums.
FuturePtr AllReduceMean(c10d::ProcessGroup& group, const at::Tensor& buffer);

// Reduces a copy of the bucket in `dtype`, a type of 16 bits, and copies the mean back. What is
// too large for `dtype` is infinite in the result, since the cast comes before the division, unless
// `divides_first`.
class CompressHook : public c10d::CppCommHookInterface<GroupPtr> {
 public:
  CompressHook(GroupPtr group, at::ScalarType dtype, bool divides_first)
      : CppCommHookInterface(std::move(group)), dtype_(dtype), divides_first_(divides_first) {}

  FuturePtr runHook(c10d::GradBucket& bucket) override;

 private:
  const at::ScalarType dtype_;
  const bool divides_first_;
};

// Runs another hook on a copy of the bucket in `dtype`, which is also the result's type: the
// reducer casts as it copies the result into the gradients.
class CompressWrapper
    : public c10d::CppCommHookInterface<std::unique_ptr<c10d::CommHookInterface>> {
 public:
  CompressWrapper(std::unique_ptr<c10d::CommHookInterface> hook, at::ScalarType dtype)
      : CppCommHookInterface(std::move(hook)), dtype_(dtype) {}

  FuturePtr runHook(c10d::GradBucket& bucket) override;

 private:
  const at::ScalarType dtype_;
};

// A hook and what it remembers between iterations.
struct CommHook {
  // Null where the job has no hook.
  std::unique_ptr<c10d::CommHookInterface> hook;
  // Shared with the hook; null where it remembers nothing.
  std::shared_ptr<PowerSgdState> state;
};

// The hook that `kwargs` asks for, with its wrapper. `kwargs` is valid and resolved. `log` takes a
// line for the rank's log.
CommHook MakeCommHook(const accel::v1::DistributedDataParallelKwargs& kwargs, const GroupPtr& group,
                      std::function<void(const std::string&)> log);

// Whether `kwargs` has a hook.
bool HasCommHook(const accel::v1::DistributedDataParallelKwargs& kwargs);

// The hook and its wrapper as one text, such as `power_sgd in fp16`; `no` without a hook.
std::string CommHookName(const accel::v1::DistributedDataParallelKwargs& kwargs);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_COMM_HOOKS_H_
