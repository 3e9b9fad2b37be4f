#ifndef ACCEL_CORE_ENGINE_DATA_SHARE_DESCRIPTION_H_
#define ACCEL_CORE_ENGINE_DATA_SHARE_DESCRIPTION_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/status/status.h"
#include "core/engine/data/dataset.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// Gives every other rank a DescribedDataset of rank 0's `dataset`. A collective whose tensors
// travel on `device`.
absl::Status ShareDescription(Communicator& communicator, at::Device device,
                              std::shared_ptr<const Dataset>* dataset);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_SHARE_DESCRIPTION_H_
