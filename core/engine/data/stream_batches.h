#ifndef ACCEL_CORE_ENGINE_DATA_STREAM_BATCHES_H_
#define ACCEL_CORE_ENGINE_DATA_STREAM_BATCHES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/engine/data/batch_source.h"
#include "core/engine/data/sample_stream.h"

namespace accel::engine {

// Batches of a stream, whose length only its end tells. Each rank reads the whole stream and keeps
// its part of every round; a last, incomplete round is completed from the first one, as
// accelerate's IterableDatasetShard and DataLoaderDispatcher do it. Where that leaves a rank
// without samples, no rank gets the round.
class StreamBatches final : public BatchSource {
 public:
  // Opens the stream of an epoch (0-based).
  using OpenEpoch = std::function<absl::StatusOr<std::unique_ptr<SampleStream>>(int64_t epoch)>;
  // Whether samples can be used, of which the first is number `first_sample` of the epoch.
  using Check = std::function<absl::Status(const Examples& examples, int64_t first_sample)>;

  StreamBatches(OpenEpoch open, const ShardOptions& shard, Check check);

  std::optional<int64_t> batches() const override { return std::nullopt; }
  bool random_access() const override { return false; }
  // Reads the batches that it skips.
  absl::Status StartEpoch(int64_t epoch, int64_t skip) override;
  // b grows by one from `skip`.
  absl::StatusOr<std::optional<Batch>> Make(int64_t b) override;

 private:
  // The samples of a round; none (undefined tensors) behind the last one.
  absl::StatusOr<Examples> ReadRound();

  const OpenEpoch open_;
  const ShardOptions shard_;
  const Check check_;
  std::unique_ptr<SampleStream> stream_;
  // What completes the last round.
  Examples first_round_;
  int64_t samples_read_ = 0;
};

// Refuses samples of `file` whose targets, except `ignore_index`, or tokens are not below
// `num_classes`; everything where `kind` is kNumber passes.
StreamBatches::Check ClassCheck(std::string file, TargetKind kind, int64_t num_classes,
                                int64_t ignore_index = kDefaultIgnoreIndex);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_STREAM_BATCHES_H_
