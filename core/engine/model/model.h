#ifndef ACCEL_CORE_ENGINE_MODEL_MODEL_H_
#define ACCEL_CORE_ENGINE_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/model.pb.h"
#include "core/engine/data/dataset.h"
#include "core/engine/model/layer.h"

namespace accel::engine {

// A model whose layers are named submodules and can be replaced (see LayerGroup). Its parameters,
// in registration order, have PyTorch's names.
class Model : public LayerGroup {
 public:
  // Input as Examples::features; output [n, ...] with OutputShape's dimensions.
  virtual at::Tensor forward(at::Tensor input) = 0;
};

// Builds a model on the CPU and initialises it with the default generator: after
// torch::manual_seed(s) it has the values that the PyTorch module has after torch.manual_seed(s).
// `default_context_length` is the data's sequence length, used by a gpt without one of its own.
// INVALID_ARGUMENT when the specification is impossible.
absl::StatusOr<std::shared_ptr<Model>> BuildModel(const accel::v1::ModelSpec& spec,
                                                  int64_t default_context_length);

// Whether the model takes features of `feature_shape` (one sample, without the batch dimension) and
// of the kind that comes with `kind`. INVALID_ARGUMENT says what does not fit.
absl::Status CheckInput(const accel::v1::ModelSpec& spec, TargetKind kind,
                        const std::vector<int64_t>& feature_shape);

// Shape of the output for one sample whose features passed CheckInput.
std::vector<int64_t> OutputShape(const accel::v1::ModelSpec& spec,
                                 const std::vector<int64_t>& feature_shape);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_MODEL_MODEL_H_
