#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_DDP_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_DDP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "accel/v1/kwargs.pb.h"
#include "core/engine/distributed/process_group.h"
#include "core/engine/model/model.h"

namespace c10d {
class CommHookInterface;
}  // namespace c10d

namespace accel::engine {

// Indices of parameters that are reduced together; buckets in the order of their reduction.
using BucketIndices = std::vector<std::vector<size_t>>;

// Data-parallel training of one model by all ranks of a group: c10d::Reducer, driven as
// torch.nn.parallel.DistributedDataParallel drives it, with the same buckets and the same
// collectives in the same order. What LibTorch throws leaves the methods.
class DistributedDataParallel {
 public:
  // Compares the parameters' shapes over the ranks (a difference throws), then replaces parameters
  // and, with broadcast_buffers, buffers by rank 0's. `model` has a parameter that needs a
  // gradient. `kwargs` is resolved: every field of its own is set. `initial_buckets`, where not
  // empty, are the first iteration's buckets: those that an earlier run ended with.
  DistributedDataParallel(std::shared_ptr<Model> model,
                          const accel::v1::DistributedDataParallelKwargs& kwargs,
                          Communicator& communicator, BucketIndices initial_buckets = {});
  ~DistributedDataParallel();

  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // The model's output. With gradients on and set_require_backward_grad_sync, the next backward
  // pass of the result all-reduces the gradients to their mean. Broadcasts rank 0's buffers first
  // if they may differ: every rank must call it as often as the others.
  at::Tensor Forward(const at::Tensor& input);

  // Does now what the next Forward would do about buffers. Evaluation calls it once, so that ranks
  // with different numbers of evaluation batches do not wait for each other.
  void SyncBuffersForEvaluation();

  // False: backward passes only accumulate into this rank's gradients, as in torch's no_sync.
  void set_require_backward_grad_sync(bool value) { require_backward_grad_sync_ = value; }

  // Replaces the all-reduce of buckets. At most once, before the first backward pass.
  void RegisterCommHook(std::unique_ptr<c10d::CommHookInterface> hook);

  // The present buckets: after the rebuild those of the gradients' order.
  BucketIndices Buckets() const;
  // Size of each in bytes.
  std::vector<int64_t> BucketBytes() const;

 private:
  class Impl;

  void SyncBuffers();

  const std::shared_ptr<Model> model_;
  const bool broadcast_buffers_;
  const bool find_unused_parameters_;
  const bool static_graph_;
  bool require_backward_grad_sync_ = true;
  // Whether a synchronised forward has run since rank 0's buffers were last broadcast.
  bool require_forward_param_sync_ = true;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_DDP_H_
