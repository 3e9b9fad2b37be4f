#include "core/engine/data/loader.h"

#include <ATen/ops/empty.h>

#include <limits>
#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

ShardOptions ShardOf(const LoaderOptions& options, bool dispatches) {
  return {.num_samples = 0,
          .batch_size = options.batch_size,
          .rank = options.rank,
          .world_size = options.world_size,
          .split_batches = options.split_batches,
          .drop_last = options.drop_last,
          .even_batches = options.even_batches,
          .whole_rounds = dispatches};
}

SamplingOrder OrderOf(const LoaderOptions& options) {
  if (!options.shuffle) return SamplingOrder::kSequential;
  return options.use_seedable_sampler ? SamplingOrder::kSeedable : SamplingOrder::kRunning;
}

}  // namespace

void DrawLoaderSeed() { at::empty({}, at::kLong).random_(); }

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options,
                       std::optional<Dispatcher> dispatcher)
    : options_(options), dispatcher_(std::move(dispatcher)) {
  ShardOptions shard = ShardOf(options, dispatcher_.has_value());
  shard.num_samples = dataset.size();
  batches_ = BatchShard(shard).num_batches();
  rounds_ = BatchShard(shard).rounds();
  if (dispatcher_.has_value() && options.rank != 0) return;
  source_ = std::make_unique<MapBatches>(dataset, shard, OrderOf(options), options.data_seed);
}

DataLoader::DataLoader(StreamBatches::OpenEpoch open, StreamBatches::Check check,
                       const LoaderOptions& options, std::optional<Dispatcher> dispatcher)
    : options_(options), dispatcher_(std::move(dispatcher)) {
  if (dispatcher_.has_value() && options.rank != 0) return;
  source_ = std::make_unique<StreamBatches>(
      std::move(open), ShardOf(options, dispatcher_.has_value()), std::move(check));
}

absl::Status DataLoader::StartEpoch(int64_t epoch, int64_t skip_batches) {
  prefetcher_.reset();
  ahead_.reset();
  epoch_ = epoch;
  next_batch_ = skip_batches;
  if (source_ == nullptr) return absl::OkStatus();
  const absl::Status started = source_->StartEpoch(epoch, skip_batches);
  // The other ranks wait for a round: the first Next tells them.
  if (!started.ok() && dispatcher_.has_value()) {
    ahead_ = started;
    return absl::OkStatus();
  }
  ACCEL_RETURN_IF_ERROR(WithCause(started, accel::v1::Failure::DATA));
  if (options_.num_workers > 0) {
    const int64_t end = batches_.value_or(std::numeric_limits<int64_t>::max());
    prefetcher_ = std::make_unique<Prefetcher>(
        *source_, skip_batches, end,
        Prefetcher::Options{.workers = options_.num_workers,
                            .depth = options_.num_workers * options_.prefetch_factor,
                            .pin_memory = options_.pin_memory});
  }
  return absl::OkStatus();
}

DataLoader::Fetched DataLoader::Fetch(int64_t b) {
  if (prefetcher_ != nullptr) return prefetcher_->Next();
  return MakeBatch(*source_, b, options_.pin_memory);
}

DataLoader::Fetched DataLoader::FetchKnowingLast() {
  if (batches_.has_value() && next_batch_ >= *batches_) return std::nullopt;
  Fetched next = ahead_.has_value() ? *std::exchange(ahead_, std::nullopt) : Fetch(next_batch_);
  if (!next.ok() || !next->has_value()) return next;
  if (batches_.has_value()) {
    (*next)->last = next_batch_ + 1 == *batches_;
    return next;
  }
  ahead_ = Fetch(next_batch_ + 1);
  (*next)->last = ahead_->ok() && !(*ahead_)->has_value();
  return next;
}

absl::StatusOr<std::optional<Batch>> DataLoader::Next() {
  Fetched next = source_ != nullptr ? FetchKnowingLast() : Fetched(std::nullopt);
  if (dispatcher_.has_value()) next = dispatcher_->Deal(std::move(next));
  if (!next.ok()) return WithCause(next.status(), accel::v1::Failure::DATA);
  if (!next->has_value()) return next;
  ++next_batch_;
  Batch& batch = **next;
  batch.features = batch.features.to(options_.device, options_.non_blocking);
  batch.targets = batch.targets.to(options_.device, options_.non_blocking);
  return next;
}

}  // namespace accel::engine
