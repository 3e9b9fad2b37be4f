#ifndef ACCEL_CORE_ENGINE_LOSS_H_
#define ACCEL_CORE_ENGINE_LOSS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "accel/v1/training.pb.h"
#include "core/engine/data/dataset.h"

namespace accel::engine {

// Whether `loss` can be computed from the targets of `dataset` and outputs of shape `output_shape`
// (one sample, without the batch dimension). INVALID_ARGUMENT says what does not fit.
absl::Status CheckTargets(const Dataset& dataset, const accel::v1::LossSpec& loss,
                          const std::vector<int64_t>& output_shape);

// How the losses of a batch's items become one number.
enum class LossReduction { kMean, kSum };

// Targets of this value do not count; mse has none.
int64_t IgnoreIndex(const accel::v1::LossSpec& loss);

// Mean or sum of the loss over the items that count, a scalar with a graph. The mean over none is
// NaN, as in torch. For CheckTargets' shapes with n samples:
//   cross_entropy: output [n, classes], targets int64 [n]
//   mse:           output and targets float32 of as many values
//   next_token:    output [n, length, tokens], targets int64 [n, length]
at::Tensor ComputeLoss(const accel::v1::LossSpec& loss, const at::Tensor& output,
                       const at::Tensor& targets, LossReduction reduction = LossReduction::kMean);

// Items of a batch that count: samples (cross_entropy), tokens (next_token) or numbers (mse).
int64_t CountItems(const accel::v1::LossSpec& loss, const at::Tensor& targets);

// What an evaluation adds up; sums of different batches and ranks are added field by field.
struct EvaluationSums {
  // Sum of the loss over the items that count.
  double loss_sum = 0;
  // Counted samples whose greatest output is the target's; 0 for other losses than cross_entropy.
  int64_t correct = 0;
  // CountItems().
  int64_t count = 0;
};

// Adds the first `valid` samples of a batch. Needs no graph: call it under NoGradGuard.
void AddToEvaluation(const accel::v1::LossSpec& loss, const at::Tensor& output,
                     const at::Tensor& targets, int64_t valid, EvaluationSums* sums);

// `eval/loss`, and `eval/accuracy` (cross_entropy) or `eval/perplexity` (next_token). Empty where
// nothing was counted.
std::map<std::string, double> EvaluationMetrics(const accel::v1::LossSpec& loss,
                                                const EvaluationSums& sums);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOSS_H_
