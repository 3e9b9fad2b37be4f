#ifndef ACCEL_CORE_ENGINE_DATA_DISPATCHER_H_
#define ACCEL_CORE_ENGINE_DATA_DISPATCHER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/data/batch_source.h"
#include "core/engine/data/dataset.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// Hands rank 0's rounds out to the ranks. Every method is a collective: all ranks call it in the
// same order. What LibTorch throws leaves them.
class Dispatcher {
 public:
  // `communicator` must outlive this. Tensors travel on `device`.
  Dispatcher(Communicator& communicator, at::Device device)
      : communicator_(communicator), device_(device) {}

  int rank() const { return communicator_.rank(); }

  // This rank's part of rank 0's `round`, which is ignored on the others: the rank-th of as many
  // equal parts as there are ranks. Nothing where rank 0 has none; rank 0's error on rank 0, and
  // ABORTED with the cause COLLECTIVE on the others.
  absl::StatusOr<std::optional<Batch>> Deal(absl::StatusOr<std::optional<Batch>> round);

 private:
  void Broadcast(at::Tensor& tensor);
  // Rank 0's `tensor`, which has `structure` as its header says it.
  at::Tensor BroadcastTensor(const at::Tensor& tensor, const int64_t* structure);

  Communicator& communicator_;
  const at::Device device_;
};

// Gives every rank rank 0's `text`.
std::string BroadcastText(Communicator& communicator, at::Device device, const std::string& text);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_DISPATCHER_H_
