#include "core/engine/data/sharding.h"

#include <algorithm>

namespace accel::engine {

ShardBatch PartOfRound(const ShardOptions& options, int64_t samples) {
  if (options.whole_rounds) {
    const int64_t part = (samples - 1) / options.world_size + 1;
    return {.begin = 0, .count = part * options.world_size, .valid = samples};
  }
  const int64_t part = options.round() / options.world_size;
  const bool fill = options.even_batches && !options.drop_last && options.world_size > 1;
  ShardBatch batch;
  batch.begin = options.rank * part;
  batch.valid = std::clamp<int64_t>(samples - batch.begin, 0, part);
  batch.count = fill ? part : batch.valid;
  return batch;
}

BatchShard::BatchShard(const ShardOptions& options)
    : options_(options),
      rounds_(options.num_samples / options.round() +
              (!options.drop_last && options.num_samples % options.round() != 0)) {}

int64_t BatchShard::num_batches() const {
  return rounds_ == 0 || Batch(rounds_ - 1).count > 0 ? rounds_ : rounds_ - 1;
}

ShardBatch BatchShard::Batch(int64_t b) const {
  const int64_t begin = b * options_.round();
  ShardBatch batch =
      PartOfRound(options_, std::min(options_.num_samples - begin, options_.round()));
  batch.begin += begin;
  return batch;
}

}  // namespace accel::engine
