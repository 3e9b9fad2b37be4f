#include "core/engine/data/dispatcher.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

enum Kind : int64_t { kNone, kRound, kError };

// A file's array has at most 64 dimensions.
constexpr int64_t kMaxDimensions = 64;
constexpr int64_t kStructure = 2 + kMaxDimensions;

// What comes before a round's tensors: four numbers, and for each tensor its type, its dimensions
// and their sizes.
enum Header : int64_t {
  kKind,
  kSamples,
  kValid,
  kLast,
  kFeatures,
  kTargets = kFeatures + kStructure,
  kHeaderSize = kTargets + kStructure
};

void PutStructure(const at::Tensor& tensor, int64_t* header) {
  header[0] = static_cast<int64_t>(tensor.scalar_type());
  header[1] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), header + 2);
}

void BroadcastFromFirst(Communicator& communicator, at::Tensor& tensor) {
  if (communicator.world_size() == 1) return;
  std::vector<at::Tensor> tensors{tensor};
  communicator.group()->broadcast(tensors)->wait();
}

absl::Status FailureOfFirst() {
  return WithCause(absl::AbortedError("rank 0 could not read the data"),
                   accel::v1::Failure::COLLECTIVE);
}

}  // namespace

void Dispatcher::Broadcast(at::Tensor& tensor) { BroadcastFromFirst(communicator_, tensor); }

at::Tensor Dispatcher::BroadcastTensor(const at::Tensor& tensor, const int64_t* structure) {
  at::Tensor values =
      rank() == 0
          ? tensor.to(device_).contiguous()
          : at::empty(at::IntArrayRef(structure + 2, structure[1]),
                      at::TensorOptions(static_cast<at::ScalarType>(structure[0])).device(device_));
  Broadcast(values);
  return values;
}

absl::StatusOr<std::optional<Batch>> Dispatcher::Deal(absl::StatusOr<std::optional<Batch>> round) {
  at::Tensor header = at::zeros({kHeaderSize}, at::TensorOptions(at::kLong));
  if (rank() == 0) {
    int64_t* values = header.mutable_data_ptr<int64_t>();
    values[kKind] = !round.ok() ? kError : round->has_value() ? kRound : kNone;
    if (values[kKind] == kRound) {
      values[kSamples] = (*round)->samples;
      values[kValid] = (*round)->valid;
      values[kLast] = (*round)->last;
      PutStructure((*round)->features, values + kFeatures);
      PutStructure((*round)->targets, values + kTargets);
    }
  }
  at::Tensor travelling = header.to(device_);
  Broadcast(travelling);
  header = travelling.cpu();
  const int64_t* values = header.const_data_ptr<int64_t>();
  if (values[kKind] == kError) return rank() == 0 ? round.status() : FailureOfFirst();
  if (values[kKind] == kNone) return std::nullopt;
  const Batch whole = rank() == 0 ? **std::move(round) : Batch{};
  const at::Tensor features = BroadcastTensor(whole.features, values + kFeatures);
  const at::Tensor targets = BroadcastTensor(whole.targets, values + kTargets);
  const int64_t part = values[kSamples] / communicator_.world_size();
  const int64_t begin = part * rank();
  return Batch{features.narrow(0, begin, part), targets.narrow(0, begin, part), part,
               std::clamp<int64_t>(values[kValid] - begin, 0, part), values[kLast] != 0};
}

std::string BroadcastText(Communicator& communicator, at::Device device, const std::string& text) {
  const bool first = communicator.rank() == 0;
  at::Tensor size =
      at::tensor({static_cast<int64_t>(text.size())}, at::TensorOptions(at::kLong).device(device));
  BroadcastFromFirst(communicator, size);
  const int64_t bytes = size.item<int64_t>();
  at::Tensor values = at::empty({bytes}, at::TensorOptions(at::kByte));
  if (first) std::memcpy(values.mutable_data_ptr(), text.data(), text.size());
  at::Tensor travelling = values.to(device);
  BroadcastFromFirst(communicator, travelling);
  values = travelling.cpu();
  return std::string(static_cast<const char*>(values.const_data_ptr()), static_cast<size_t>(bytes));
}

}  // namespace accel::engine
