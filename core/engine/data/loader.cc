#include "core/engine/data/loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

namespace accel::engine {
namespace {

ShardOptions ShardOptionsOf(const Dataset& dataset, const LoaderOptions& options) {
  return {.num_samples = dataset.size(),
          .batch_size = options.batch_size,
          .rank = options.rank,
          .world_size = options.world_size,
          .split_batches = options.split_batches,
          .drop_last = options.drop_last,
          .even_batches = options.even_batches};
}

SamplingOrder OrderOf(const LoaderOptions& options) {
  if (!options.shuffle) return SamplingOrder::kSequential;
  return options.use_seedable_sampler ? SamplingOrder::kSeedable : SamplingOrder::kRunning;
}

}  // namespace

void DrawLoaderSeed() { at::empty({}, at::kLong).random_(); }

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset),
      shard_(ShardOptionsOf(dataset, options)),
      sampler_(dataset.size(), OrderOf(options), options.data_seed) {}

void DataLoader::StartEpoch(int64_t epoch, int64_t skip_batches) {
  order_ = sampler_.Order(epoch);
  epoch_ = epoch;
  next_batch_ = skip_batches;
}

bool DataLoader::Next(Batch* batch) {
  if (next_batch_ >= shard_.num_batches()) return false;
  const ShardBatch part = shard_.Batch(next_batch_++);
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
  *batch = {std::move(examples.features), std::move(examples.targets), part.count, part.valid};
  return true;
}

}  // namespace accel::engine
