#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_PROCESS_GROUP_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_PROCESS_GROUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/engine/cuda/module_api.h"

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace accel::engine {

// One rank's link to the other ranks of its attempt: a store and a process group. With one rank
// there is neither, and every operation is the identity. Used by one thread. What LibTorch throws
// leaves the methods (a peer that is gone, a timeout).
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Connects with the other ranks of `start`; waits for them at most as long as
  // init_process_group_kwargs.timeout, which also limits each later collective and each use of the
  // store. Rank 0 hosts a TCPStore and takes its listening descriptor over. `cuda` is null for the
  // device "cpu".
  static absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const accel::internal::v1::StartAttempt& start, at::Device device, const CudaModule* cuda);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // Whether this is the first rank of its machine, which writes what the machine has once.
  bool is_local_main() const { return local_main_; }

  // The group; null with one rank.
  virtual const c10::intrusive_ptr<c10d::ProcessGroup>& group() const = 0;

  // Replaces `tensor` by the sum over all ranks.
  virtual void AllReduceSum(at::Tensor& tensor) = 0;

  // The smallest and the greatest `value` of all ranks.
  virtual int64_t Min(int64_t value) = 0;
  virtual int64_t Max(int64_t value) = 0;

  // Returns when every rank has called it.
  virtual void Barrier() = 0;

  // Ends the use of the group: returns when every rank has called it, so that none closes its
  // connections while another still reads from them. Gives up silently after a few seconds.
  virtual void Finish() = 0;

 protected:
  Communicator(int rank, int world_size, bool local_main)
      : rank_(rank), world_size_(world_size), local_main_(local_main) {}

 private:
  const int rank_;
  const int world_size_;
  const bool local_main_;
};

// What `start`'s process group is, for people. Not for one rank, which has none.
accel::v1::ProcessGroupInfo DescribeGroup(const accel::internal::v1::StartAttempt& start);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_PROCESS_GROUP_H_
