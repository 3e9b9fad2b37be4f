#ifndef ACCEL_CORE_ENGINE_OPTIM_STRONG_WOLFE_H_
#define ACCEL_CORE_ENGINE_OPTIM_STRONG_WOLFE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "core/engine/optim/real.h"

namespace accel::engine {

// The loss at some parameters, and its gradient as one vector.
struct Evaluation {
  double loss = 0;
  at::Tensor gradient;
};

// A point on the line that is searched.
struct LinePoint {
  // Its distance from the start, in lengths of the direction.
  Real length;
  Evaluation evaluation;
  // The loss's derivative along the direction.
  Real slope;
};

// Where a search ended.
struct LineSearchResult {
  LinePoint point;
  int64_t evaluations = 0;
};

// The scalar product of two float32 vectors.
Real Dot(const at::Tensor& a, const at::Tensor& b);

// The greatest absolute value in a float32 tensor.
Real LargestMagnitude(const at::Tensor& tensor);

// A line search for the strong Wolfe conditions (Nocedal and Wright: Numerical optimization, 2nd
// edition, algorithms 3.5 and 3.6) by cubic interpolation, as torch.optim.LBFGS has it. `start` has
// length 0, `evaluate` gives the loss at a length. Tries `first` and at most `most_further` lengths
// after it.
LineSearchResult SearchStrongWolfe(const std::function<Evaluation(Real)>& evaluate,
                                   const at::Tensor& direction, const LinePoint& start, Real first,
                                   double tolerance_change, int64_t most_further);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_STRONG_WOLFE_H_
