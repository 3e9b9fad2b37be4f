#ifndef ACCEL_CORE_ENGINE_MODEL_CONVNET_H_
#define ACCEL_CORE_ENGINE_MODEL_CONVNET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "accel/v1/model.pb.h"
#include "core/engine/model/model.h"

namespace accel::engine {

// See accel.v1.ConvNet. Input float32 [n, in_channels, height, width]; output [n, num_classes].
absl::StatusOr<std::shared_ptr<Model>> BuildConvNet(const accel::v1::ConvNet& spec);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_MODEL_CONVNET_H_
