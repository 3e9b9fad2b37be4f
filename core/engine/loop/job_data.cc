#include "core/engine/loop/job_data.h"

#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/data/share_description.h"
#include "core/engine/loss.h"

namespace accel::engine {
namespace {

constexpr int64_t kDefaultSeed = 42;
constexpr int64_t kDefaultPrefetchFactor = 2;

// Classes or tokens that a model with this output knows; 0 for numbers.
int64_t NumClasses(TargetKind kind, const std::vector<int64_t>& output_shape) {
  return kind == TargetKind::kNumber ? 0 : output_shape.back();
}

}  // namespace

int64_t SeedOf(const accel::v1::LoopSpec& loop) {
  return loop.has_seed() ? loop.seed() : kDefaultSeed;
}

absl::Status JobData::Load(const accel::internal::v1::StartAttempt& start) {
  start_ = &start;
  const auto& config = start.resolved_accelerator().dataloader_config();
  // What is absent is decided by the kind of the data, as Accelerate does it.
  const bool several = start.world_size() > 1;
  dispatches_evaluation_ = several && config.dispatch_batches();
  dispatches_train_ =
      several && (config.has_dispatch_batches() ? config.dispatch_batches() : streams());
  const DataRoots roots(start.data_roots().begin(), start.data_roots().end());
  ACCEL_ASSIGN_OR_RETURN(
      data_, LoadTrainingData(start.spec().data(), TargetKindOf(start.spec().loss()), roots,
                              {.train = start.rank() == 0 || !dispatches_train_,
                               .evaluation = start.rank() == 0 || !dispatches_evaluation_},
                              IgnoreIndex(start.spec().loss())));
  return absl::OkStatus();
}

absl::Status JobData::Share(Communicator& communicator, at::Device device) {
  if (dispatches_train_) {
    ACCEL_RETURN_IF_ERROR(ShareDescription(communicator, device, &data_.train));
  }
  if (dispatches_evaluation_ &&
      (start_->spec().data().has_evaluation() || start_->spec().data().has_split())) {
    ACCEL_RETURN_IF_ERROR(ShareDescription(communicator, device, &data_.evaluation));
  }
  return CheckSameShapes(data_);
}

LoaderOptions JobData::TrainOptions(at::Device device) const {
  const accel::v1::DataSpec& data = start_->spec().data();
  const auto& config = start_->resolved_accelerator().dataloader_config();
  return {.batch_size = data.batch_size(),
          .rank = start_->rank(),
          .world_size = start_->world_size(),
          .shuffle = !data.has_shuffle() || data.shuffle(),
          .drop_last = data.drop_last(),
          .even_batches = config.even_batches(),
          .split_batches = config.split_batches(),
          .use_seedable_sampler = config.use_seedable_sampler(),
          .data_seed = config.has_data_seed() ? config.data_seed() : SeedOf(start_->spec().loop()),
          .num_workers = data.num_workers(),
          .prefetch_factor =
              data.has_prefetch_factor() ? data.prefetch_factor() : kDefaultPrefetchFactor,
          .pin_memory = data.pin_memory(),
          .device = device,
          .non_blocking = config.non_blocking()};
}

LoaderOptions JobData::EvaluationOptions(at::Device device) const {
  LoaderOptions options = TrainOptions(device);
  const accel::v1::DataSpec& data = start_->spec().data();
  if (data.has_evaluation_batch_size()) options.batch_size = data.evaluation_batch_size();
  options.shuffle = false;
  options.drop_last = false;
  return options;
}

StreamBatches::OpenEpoch JobData::StreamOpener() const {
  const accel::v1::Streaming& streaming = start_->spec().data().streaming();
  const auto seed = static_cast<uint64_t>(TrainOptions(at::kCPU).data_seed);
  return [open = data_.train_stream, buffer = streaming.shuffle_buffer(),
          seed](int64_t epoch) -> absl::StatusOr<std::unique_ptr<SampleStream>> {
    ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<SampleStream> stream, open());
    if (buffer == 0) return stream;
    return ShuffleStream(std::move(stream), buffer, seed + static_cast<uint64_t>(epoch));
  };
}

void JobData::CreateLoaders(Communicator& communicator, at::Device device,
                            const std::vector<int64_t>& output_shape) {
  const auto dispatcher = [&](bool dispatches) {
    return dispatches ? std::optional<Dispatcher>(std::in_place, communicator, device)
                      : std::nullopt;
  };
  if (streams()) {
    auto check = ClassCheck(start_->spec().data().train().file(), train().target_kind(),
                            NumClasses(train().target_kind(), output_shape),
                            IgnoreIndex(start_->spec().loss()));
    train_loader_ = std::make_unique<DataLoader>(
        StreamOpener(), std::move(check), TrainOptions(device), dispatcher(dispatches_train_));
  } else {
    train_loader_ =
        std::make_unique<DataLoader>(train(), TrainOptions(device), dispatcher(dispatches_train_));
  }
  if (evaluation() != nullptr) {
    evaluation_loader_ = std::make_unique<DataLoader>(*evaluation(), EvaluationOptions(device),
                                                      dispatcher(dispatches_evaluation_));
  }
}

}  // namespace accel::engine
