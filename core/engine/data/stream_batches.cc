#include "core/engine/data/stream_batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_roots.h"

namespace accel::engine {
namespace {

// Rows [begin, begin + count) of a round that goes on, as often as it must, with the first one.
at::Tensor TakeRows(const at::Tensor& round, const at::Tensor& first, int64_t begin,
                    int64_t count) {
  const int64_t size = round.size(0);
  // A copy, so that a batch does not keep its round in memory.
  if (begin + count <= size) return round.narrow(0, begin, count).clone();
  const at::Tensor positions = at::arange(begin, begin + count, at::TensorOptions(at::kLong));
  const at::Tensor beyond = (positions - size).remainder_(first.size(0)).add_(size);
  return at::index_select(at::cat({round, first}), 0, positions.where(positions < size, beyond));
}

}  // namespace

StreamBatches::StreamBatches(OpenEpoch open, const ShardOptions& shard, Check check)
    : open_(std::move(open)), shard_(shard), check_(std::move(check)) {}

absl::Status StreamBatches::StartEpoch(int64_t epoch, int64_t skip) {
  first_round_ = {};
  samples_read_ = 0;
  ACCEL_ASSIGN_OR_RETURN(stream_, open_(epoch));
  for (int64_t b = 0; b < skip; ++b) {
    ACCEL_RETURN_IF_ERROR(ReadRound().status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Examples> StreamBatches::ReadRound() {
  ACCEL_ASSIGN_OR_RETURN(Examples round, stream_->Read(shard_.round()));
  if (!round.features.defined()) return round;
  ACCEL_RETURN_IF_ERROR(check_(round, samples_read_));
  samples_read_ += round.features.size(0);
  if (!first_round_.features.defined()) first_round_ = round;
  return round;
}

absl::StatusOr<std::optional<Batch>> StreamBatches::Make(int64_t) {
  ACCEL_ASSIGN_OR_RETURN(const Examples round, ReadRound());
  if (!round.features.defined()) return std::nullopt;
  const int64_t samples = round.features.size(0);
  if (samples < shard_.round()) {
    ShardOptions last_rank = shard_;
    last_rank.rank = shard_.world_size - 1;
    if (shard_.drop_last || PartOfRound(last_rank, samples).count == 0) return std::nullopt;
  }
  const ShardBatch part = PartOfRound(shard_, samples);
  return Batch{TakeRows(round.features, first_round_.features, part.begin, part.count),
               TakeRows(round.targets, first_round_.targets, part.begin, part.count), part.count,
               part.valid};
}

StreamBatches::Check ClassCheck(std::string file, TargetKind kind, int64_t num_classes,
                                int64_t ignore_index) {
  if (kind == TargetKind::kNumber) {
    return [](const Examples&, int64_t) { return absl::OkStatus(); };
  }
  const absl::string_view what = kind == TargetKind::kClass ? "class" : "token";
  return [file = std::move(file), num_classes, ignore_index, what](
             const Examples& examples, int64_t first_sample) -> absl::Status {
    const int64_t samples = examples.targets.size(0);
    const at::Tensor targets = examples.targets.masked_fill(examples.targets == ignore_index, -1);
    at::Tensor largest = targets.reshape({samples, -1}).amax(1);
    // A sample's first token is no other's target.
    if (what == "token") {
      largest = largest.maximum(examples.features.reshape({samples, -1}).amax(1));
    }
    const at::Tensor bad = largest >= num_classes;
    if (!bad.any().item<bool>()) return absl::OkStatus();
    const int64_t sample = bad.to(at::kByte).argmax().item<int64_t>();
    return MalformedData(
        file, absl::StrCat("sample ", first_sample + sample, " has ", what, " ",
                           largest[sample].item<int64_t>(), ", the model has ", num_classes));
  };
}

}  // namespace accel::engine
