#ifndef ACCEL_CORE_ENGINE_DATA_SPLIT_H_
#define ACCEL_CORE_ENGINE_DATA_SPLIT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"

namespace accel::engine {

// Samples of a data set, int64 [k].
struct SplitIndices {
  at::Tensor train;
  at::Tensor evaluation;
};

// torch.utils.data.random_split of n samples with a generator of its own. INVALID_ARGUMENT when a
// part would be empty.
absl::StatusOr<SplitIndices> RandomSplit(int64_t n, const accel::v1::Split& spec);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_SPLIT_H_
