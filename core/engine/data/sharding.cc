#include "core/engine/data/sharding.h"

#include <algorithm>

namespace accel::engine {

BatchShard::BatchShard(const ShardOptions& options)
    : options_(options),
      round_(options.split_batches ? options.batch_size : options.batch_size * options.world_size),
      part_(round_ / options.world_size),
      fill_(options.even_batches && !options.drop_last && options.world_size > 1),
      rounds_(options.num_samples / round_ +
              (!options.drop_last && options.num_samples % round_ != 0)) {}

int64_t BatchShard::num_batches() const {
  if (rounds_ == 0 || fill_) return rounds_;
  const int64_t last_begin = (rounds_ - 1) * round_ + options_.rank * part_;
  return last_begin < options_.num_samples ? rounds_ : rounds_ - 1;
}

ShardBatch BatchShard::Batch(int64_t b) const {
  ShardBatch batch;
  batch.begin = b * round_ + options_.rank * part_;
  batch.valid = std::clamp<int64_t>(options_.num_samples - batch.begin, 0, part_);
  batch.count = fill_ ? part_ : batch.valid;
  return batch;
}

}  // namespace accel::engine
