#ifndef ACCEL_CORE_ENGINE_DATA_BATCH_SOURCE_H_
#define ACCEL_CORE_ENGINE_DATA_BATCH_SOURCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/sampler.h"
#include "core/engine/data/sharding.h"

namespace accel::engine {

// One rank's part of a round.
struct Batch {
  // As Dataset::Get gives them; a DataLoader puts them on its device.
  at::Tensor features;
  at::Tensor targets;
  // First dimension of both.
  int64_t samples = 0;
  // Leading samples that count in an evaluation; the others complete the round and were seen before
  // in this epoch. Over all ranks these are the rows that accelerate's gather_for_metrics keeps.
  int64_t valid = 0;
  // Whether the epoch ends with it. Set by DataLoader.
  bool last = false;
};

// Makes the batches of an epoch.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Batches of an epoch; absent where only its end tells.
  virtual std::optional<int64_t> batches() const = 0;

  // Whether Make may be called in any order and by several threads at once. Otherwise it is called
  // for one batch after the other.
  virtual bool random_access() const = 0;

  // Begins an epoch (0-based) at its batch `skip`. No Make may be going on.
  virtual absl::Status StartEpoch(int64_t epoch, int64_t skip) = 0;

  // Batch b of the epoch; nothing behind its end. Errors name file and place.
  virtual absl::StatusOr<std::optional<Batch>> Make(int64_t b) = 0;
};

// Batches of samples that can be read in any order.
class MapBatches final : public BatchSource {
 public:
  // `dataset` must outlive this; `shard.num_samples` is its size.
  MapBatches(const Dataset& dataset, const ShardOptions& shard, SamplingOrder order, int64_t seed);

  std::optional<int64_t> batches() const override { return shard_.num_batches(); }
  bool random_access() const override { return true; }
  absl::Status StartEpoch(int64_t epoch, int64_t skip) override;
  absl::StatusOr<std::optional<Batch>> Make(int64_t b) override;

 private:
  const Dataset& dataset_;
  const BatchShard shard_;
  Sampler sampler_;
  at::Tensor order_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_BATCH_SOURCE_H_
