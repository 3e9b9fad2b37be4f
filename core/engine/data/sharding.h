#ifndef ACCEL_CORE_ENGINE_DATA_SHARDING_H_
#define ACCEL_CORE_ENGINE_DATA_SHARDING_H_

#include <cstdint>

namespace accel::engine {

// Which samples of an epoch's order a rank gets, as accelerate's BatchSamplerShard and
// IterableDatasetShard deal them. A round is one batch of every rank; with and without
// split_batches, round b covers the positions [b * round, (b + 1) * round) and rank r's batch is
// the r-th of `world_size` equal parts.
struct ShardOptions {
  // Samples of the epoch, at least 1. Unused by PartOfRound.
  int64_t num_samples = 0;
  // Samples of one rank's batch, or of a whole round with split_batches, where world_size must
  // divide it.
  int64_t batch_size = 0;
  int64_t rank = 0;
  int64_t world_size = 1;
  bool split_batches = false;
  // Leave out a last, incomplete round.
  bool drop_last = false;
  // Complete a last round with samples from the start of the order. No effect with drop_last or a
  // single rank, whose last batch is shorter.
  bool even_batches = true;
  // Batches are the parts of all ranks, for a rank that hands them out, as accelerate's
  // DataLoaderDispatcher does: a last round is completed to a multiple of world_size only, whatever
  // even_batches says.
  bool whole_rounds = false;

  // Samples of a round.
  int64_t round() const { return split_batches ? batch_size : batch_size * world_size; }
};

// One batch: the samples at positions (begin + i) % num_samples of the order, 0 <= i < count. From
// i = valid on they complete the round and have been seen before in this epoch.
struct ShardBatch {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t valid = 0;
};

// What a round of `samples` samples, 1 <= samples <= round(), comes to; `begin` counts from the
// round's start.
ShardBatch PartOfRound(const ShardOptions& options, int64_t samples);

// The parts of an epoch whose number of samples is known.
class BatchShard {
 public:
  explicit BatchShard(const ShardOptions& options);

  // Batches of this rank in an epoch, 0 where all is left out. Without even_batches a rank may have
  // one less than rounds().
  int64_t num_batches() const;

  // Rounds of an epoch: the batches of the rank that has most.
  int64_t rounds() const { return rounds_; }

  // Batch b of this rank, 0 <= b < num_batches().
  ShardBatch Batch(int64_t b) const;

 private:
  const ShardOptions options_;
  const int64_t rounds_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_SHARDING_H_
