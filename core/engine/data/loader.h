#ifndef ACCEL_CORE_ENGINE_DATA_LOADER_H_
#define ACCEL_CORE_ENGINE_DATA_LOADER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/engine/data/dataset.h"
#include "core/engine/data/sampler.h"
#include "core/engine/data/sharding.h"

namespace accel::engine {

// See accel.v1.DataSpec and accel.v1.DataLoaderConfiguration.
struct LoaderOptions {
  int64_t batch_size = 0;
  int64_t rank = 0;
  int64_t world_size = 1;
  bool shuffle = true;
  bool drop_last = false;
  bool even_batches = true;
  bool split_batches = false;
  bool use_seedable_sampler = false;
  int64_t data_seed = 0;
};

// One rank's part of a round.
struct Batch {
  // On the CPU, as Dataset::Get gives them.
  at::Tensor features;
  at::Tensor targets;
  // First dimension of both.
  int64_t samples = 0;
  // Leading samples that count in an evaluation; the others complete the round and were seen before
  // in this epoch. Over all ranks these are the rows that accelerate's gather_for_metrics keeps.
  int64_t valid = 0;
};

// torch.utils.data.DataLoader takes a seed for its workers from the default generator whenever an
// iteration over it begins, with or without workers; what is drawn after it depends on that. The
// loop calls it in the same places.
void DrawLoaderSeed();

// The batches of one rank, as a prepared torch DataLoader yields them. Its position is (epoch,
// batches done): StartEpoch(e, b) goes on where an earlier one stood. Not thread-safe.
class DataLoader {
 public:
  // `dataset` must outlive this. With split_batches, world_size must divide batch_size.
  DataLoader(const Dataset& dataset, const LoaderOptions& options);

  // Batches of this rank in an epoch; 0 where drop_last leaves nothing.
  int64_t batches_per_epoch() const { return shard_.num_batches(); }

  // Batches of the rank that has most: differs from batches_per_epoch() only without even_batches.
  int64_t rounds_per_epoch() const { return shard_.rounds(); }

  // Begins an epoch (0-based) at its batch `skip_batches`. Must come before the first Next.
  void StartEpoch(int64_t epoch, int64_t skip_batches);

  // The next batch of the epoch; false, with `batch` untouched, when there is none.
  bool Next(Batch* batch);

  int64_t epoch() const { return epoch_; }
  // Batches of the epoch that Next has given or StartEpoch has skipped.
  int64_t batches_done() const { return next_batch_; }

 private:
  const Dataset& dataset_;
  const BatchShard shard_;
  Sampler sampler_;
  at::Tensor order_;
  int64_t epoch_ = 0;
  int64_t next_batch_ = 0;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_LOADER_H_
