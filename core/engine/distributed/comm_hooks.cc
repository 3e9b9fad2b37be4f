#include "core/engine/distributed/comm_hooks.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/distributed/power_sgd.h"

namespace accel::engine {
namespace {

using accel::v1::DistributedDataParallelKwargs;

// Starts the sum of `tensor` over the ranks; `finish` runs when it is there, and `result` is the
// future's value.
template <typename Finish>
FuturePtr AllReduceThen(c10d::ProcessGroup& group, const at::Tensor& tensor,
                        const at::Tensor& result, Finish finish) {
  std::vector<at::Tensor> tensors{tensor};
  return group.allreduce(tensors)->getFuture()->then(
      [result, finish = std::move(finish)](c10::ivalue::Future& reduced) {
        reduced.value();  // throws what the collective failed with
        finish();
        return c10::IValue(result);
      },
      c10::TensorType::get());
}

bool IsSet(const std::string& name) { return !name.empty() && name != "no"; }

at::ScalarType SmallType(const std::string& name) {
  return name == "fp16" ? at::kHalf : at::kBFloat16;
}

}  // namespace

FuturePtr AllReduceMean(c10d::ProcessGroup& group, const at::Tensor& buffer) {
  buffer.div_(group.getSize());
  return AllReduceThen(group, buffer, buffer, [] {});
}

FuturePtr CompressHook::runHook(c10d::GradBucket& bucket) {
  const at::Tensor buffer = bucket.getBuffer();
  const at::Tensor compressed = divides_first_ ? buffer.div_(state_->getSize()).to(dtype_)
                                               : buffer.to(dtype_).div_(state_->getSize());
  return AllReduceThen(*state_, compressed, buffer,
                       [buffer, compressed] { buffer.copy_(compressed); });
}

FuturePtr CompressWrapper::runHook(c10d::GradBucket& bucket) {
  at::Tensor compressed = bucket.getBuffer().to(dtype_);
  bucket.setBuffer(compressed);
  return state_->runHook(bucket);
}

CommHook MakeCommHook(const DistributedDataParallelKwargs& kwargs, const GroupPtr& group,
                      std::function<void(const std::string&)> log) {
  CommHook made;
  if (!HasCommHook(kwargs)) return made;
  const std::string& name = kwargs.comm_hook();
  if (name == "fp16" || name == "bf16") {
    made.hook =
        std::make_unique<CompressHook>(group, SmallType(name), kwargs.comm_hook_overflow_guard());
  } else {
    made.state = std::make_shared<PowerSgdState>(kwargs.comm_state_option(), std::move(log));
    if (name == "power_sgd") {
      made.hook = std::make_unique<PowerSgdHook>(group, made.state);
    } else {
      made.hook = std::make_unique<BatchedPowerSgdHook>(group, made.state);
    }
  }
  if (IsSet(kwargs.comm_wrapper())) {
    made.hook =
        std::make_unique<CompressWrapper>(std::move(made.hook), SmallType(kwargs.comm_wrapper()));
  }
  return made;
}

bool HasCommHook(const DistributedDataParallelKwargs& kwargs) { return IsSet(kwargs.comm_hook()); }

std::string CommHookName(const DistributedDataParallelKwargs& kwargs) {
  if (!HasCommHook(kwargs)) return "no";
  if (!IsSet(kwargs.comm_wrapper())) return kwargs.comm_hook();
  return absl::StrCat(kwargs.comm_hook(), " in ", kwargs.comm_wrapper());
}

}  // namespace accel::engine
