#ifndef ACCEL_CORE_ENGINE_MODEL_MLP_H_
#define ACCEL_CORE_ENGINE_MODEL_MLP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "accel/v1/model.pb.h"
#include "core/engine/model/model.h"

namespace accel::engine {

// See accel.v1.Mlp. Input float32 [n, ...], flattened; output [n, last size].
absl::StatusOr<std::shared_ptr<Model>> BuildMlp(const accel::v1::Mlp& spec);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_MODEL_MLP_H_
