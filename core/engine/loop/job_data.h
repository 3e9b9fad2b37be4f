#ifndef ACCEL_CORE_ENGINE_LOOP_JOB_DATA_H_
#define ACCEL_CORE_ENGINE_LOOP_JOB_DATA_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/engine/data/loader.h"
#include "core/engine/data/training_data.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// The job's seed, or its default.
int64_t SeedOf(const accel::v1::LoopSpec& loop);

// The data of a job on one rank, and its loaders.
class JobData {
 public:
  // Reads what this rank has to read: everything, or with dispatch_batches on other ranks than 0
  // nothing. `start` must outlive this.
  absl::Status Load(const accel::internal::v1::StartAttempt& start);

  // Tells all ranks what those that read have found. A collective.
  absl::Status Share(Communicator& communicator, at::Device device);

  // Makes the loaders, which put batches on `device`. `output_shape` is the model's for a sample.
  // `communicator` must outlive this.
  void CreateLoaders(Communicator& communicator, at::Device device,
                     const std::vector<int64_t>& output_shape);

  // After Share. Its samples are here only where this rank reads them.
  const Dataset& train() const { return *data_.train; }
  // Null where the job evaluates nothing.
  const Dataset* evaluation() const { return data_.evaluation.get(); }

  DataLoader& train_loader() { return *train_loader_; }
  // Null where the job evaluates nothing.
  DataLoader* evaluation_loader() { return evaluation_loader_.get(); }

 private:
  bool streams() const { return start_->spec().data().has_streaming(); }
  LoaderOptions TrainOptions(at::Device device) const;
  LoaderOptions EvaluationOptions(at::Device device) const;
  StreamBatches::OpenEpoch StreamOpener() const;

  const accel::internal::v1::StartAttempt* start_ = nullptr;
  // Whether rank 0 reads for all.
  bool dispatches_train_ = false;
  bool dispatches_evaluation_ = false;
  TrainingData data_;
  std::unique_ptr<DataLoader> train_loader_;
  std::unique_ptr<DataLoader> evaluation_loader_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_JOB_DATA_H_
