#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_NAMED_GLOO_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_NAMED_GLOO_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace accel::engine {

// A Gloo backend whose collectives fail with their own name: what was done, the how manieth
// collective of this rank, on how much, and the time limit, before Gloo's text. Gloo itself says
// only which socket operation did not complete. Those that training uses are named.
class NamedGloo final : public c10d::ProcessGroupGloo {
 public:
  // As ProcessGroupGloo; `timeout` limits each collective.
  NamedGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
            const std::string& address, std::chrono::milliseconds timeout);

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;

 private:
  // `all-reduce number 3 (128 float, timeout 30s)`, and counts.
  std::string NextName(const char* operation, const at::Tensor& tensor);

  const std::chrono::milliseconds timeout_;
  std::atomic<int64_t> started_ = 0;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_NAMED_GLOO_H_
