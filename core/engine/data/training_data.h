#ifndef ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_
#define ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/data_roots.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/sample_stream.h"

namespace accel::engine {

// The data of a job.
struct TrainingData {
  // A description where the samples come from `train_stream`; null where another rank reads.
  std::shared_ptr<const Dataset> train;
  // Opens the training samples as a stream; null where they are in `train`.
  OpenStream train_stream;
  // Held-out samples; null where the job evaluates nothing or another rank reads.
  std::shared_ptr<const Dataset> evaluation;
};

// What a rank reads.
struct DataToRead {
  bool train = true;
  bool evaluation = true;
};

// Loads both, or one and splits it. `ignore_index` and errors as LoadDataset.
absl::StatusOr<TrainingData> LoadTrainingData(const accel::v1::DataSpec& spec, TargetKind kind,
                                              const DataRoots& roots, const DataToRead& read = {},
                                              int64_t ignore_index = kDefaultIgnoreIndex);

// INVALID_ARGUMENT unless training and evaluation samples have the same shapes; LoadTrainingData
// checks it where it reads both.
absl::Status CheckSameShapes(const TrainingData& data);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_
