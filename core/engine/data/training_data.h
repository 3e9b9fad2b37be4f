#ifndef ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_
#define ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/data_roots.h"
#include "core/engine/data/dataset.h"

namespace accel::engine {

// The data of a job.
struct TrainingData {
  std::shared_ptr<const Dataset> train;
  // Held-out samples; null where the job evaluates nothing.
  std::shared_ptr<const Dataset> evaluation;
};

// Loads both, or one and splits it. Both have the same shapes. Errors as LoadDataset.
absl::StatusOr<TrainingData> LoadTrainingData(const accel::v1::DataSpec& spec, TargetKind kind,
                                              const DataRoots& roots,
                                              int64_t ignore_index = kDefaultIgnoreIndex);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_TRAINING_DATA_H_
