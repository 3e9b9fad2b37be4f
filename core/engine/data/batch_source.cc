#include "core/engine/data/batch_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <utility>

namespace accel::engine {

MapBatches::MapBatches(const Dataset& dataset, const ShardOptions& shard, SamplingOrder order,
                       int64_t seed)
    : dataset_(dataset), shard_(shard), sampler_(dataset.size(), order, seed) {}

absl::Status MapBatches::StartEpoch(int64_t epoch, int64_t) {
  order_ = sampler_.Order(epoch);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Batch>> MapBatches::Make(int64_t b) {
  if (b >= shard_.num_batches()) return std::nullopt;
  const ShardBatch part = shard_.Batch(b);
  const int64_t n = order_.size(0);
  at::Tensor indices;
  if (part.begin + part.count <= n) {
    indices = order_.narrow(0, part.begin, part.count);
  } else {
    const at::Tensor positions =
        at::arange(part.begin, part.begin + part.count, at::TensorOptions(at::kLong)).remainder_(n);
    indices = at::index_select(order_, 0, positions);
  }
  Examples examples = dataset_.Get(indices);
  return Batch{std::move(examples.features), std::move(examples.targets), part.count, part.valid};
}

}  // namespace accel::engine
