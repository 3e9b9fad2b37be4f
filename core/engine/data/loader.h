#ifndef ACCEL_CORE_ENGINE_DATA_LOADER_H_
#define ACCEL_CORE_ENGINE_DATA_LOADER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/data/batch_source.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/dispatcher.h"
#include "core/engine/data/prefetcher.h"
#include "core/engine/data/stream_batches.h"

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
  int64_t num_workers = 0;
  int64_t prefetch_factor = 2;
  bool pin_memory = false;
  // Where batches are put, and whether the copy may overlap with what follows.
  at::Device device = at::kCPU;
  bool non_blocking = false;
};

// torch.utils.data.DataLoader takes a seed for its workers from the default generator whenever an
// iteration over it begins, with or without workers, and on the ranks too that accelerate's
// dispatcher serves; what is drawn after it depends on that. The loop calls it in the same places.
void DrawLoaderSeed();

// The batches of one rank, as a prepared torch DataLoader yields them. Its position is (epoch,
// batches done): StartEpoch(e, b) goes on where an earlier one stood. Not thread-safe.
class DataLoader {
 public:
  // Of samples that can be read in any order. `dataset` must outlive this. With split_batches,
  // world_size must divide batch_size. With a dispatcher rank 0 reads for all, and `dataset` is
  // read on rank 0 only.
  DataLoader(const Dataset& dataset, const LoaderOptions& options,
             std::optional<Dispatcher> dispatcher = std::nullopt);

  // Of a stream. With a dispatcher `open` is called on rank 0 only.
  DataLoader(StreamBatches::OpenEpoch open, StreamBatches::Check check,
             const LoaderOptions& options, std::optional<Dispatcher> dispatcher = std::nullopt);

  // Batches of this rank in an epoch, 0 where drop_last leaves nothing; absent for a stream.
  std::optional<int64_t> batches_per_epoch() const { return batches_; }

  // Batches of the rank that has most: differs from batches_per_epoch() only without even_batches.
  std::optional<int64_t> rounds_per_epoch() const { return rounds_; }

  // Ends every epoch after `rounds` batches, at most batches_per_epoch().
  void LimitRounds(int64_t rounds) { batches_ = rounds; }

  // Begins an epoch (0-based) at its batch `skip_batches`. Must come before the first Next.
  absl::Status StartEpoch(int64_t epoch, int64_t skip_batches);

  // The next batch of the epoch; nothing when there is none. Errors have the cause DATA.
  absl::StatusOr<std::optional<Batch>> Next();

  int64_t epoch() const { return epoch_; }
  // Batches of the epoch that Next has given or StartEpoch has skipped.
  int64_t batches_done() const { return next_batch_; }

 private:
  using Fetched = absl::StatusOr<std::optional<Batch>>;

  // Batch b, the one behind the last that was fetched.
  Fetched Fetch(int64_t b);
  // The next batch with its `last`.
  Fetched FetchKnowingLast();

  const LoaderOptions options_;
  std::optional<Dispatcher> dispatcher_;
  // Null on the ranks that a dispatcher serves.
  std::unique_ptr<BatchSource> source_;
  std::optional<int64_t> batches_;
  std::optional<int64_t> rounds_;
  std::unique_ptr<Prefetcher> prefetcher_;
  // A stream's batch behind the one that was given: it tells whether that was the last.
  std::optional<Fetched> ahead_;
  int64_t epoch_ = 0;
  int64_t next_batch_ = 0;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_LOADER_H_
