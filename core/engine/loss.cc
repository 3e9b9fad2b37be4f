#include "core/engine/loss.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace accel::engine {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t NumValues(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

absl::Status CheckClasses(const Dataset& dataset, int64_t outputs, absl::string_view what) {
  if (dataset.num_classes() <= outputs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the data has ", what, " ", dataset.num_classes() - 1,
                   ", the model's outputs are for 0 to ", outputs - 1));
}

// Evaluation sums hold a mean's numerator.
double MeanOf(double sum, int64_t count) { return sum / static_cast<double>(count); }

}  // namespace

absl::Status CheckTargets(const Dataset& dataset, const accel::v1::LossSpec& loss,
                          const std::vector<int64_t>& output_shape) {
  if (dataset.target_kind() != TargetKindOf(loss)) {
    return absl::InvalidArgumentError("the data's targets are of another kind than the loss needs");
  }
  switch (dataset.target_kind()) {
    case TargetKind::kClass:
      if (output_shape.size() != 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "loss.cross_entropy needs one output for each class, the model's output has shape ",
            ShapeText(output_shape)));
      }
      return CheckClasses(dataset, output_shape[0], "class");
    case TargetKind::kNextToken:
      if (output_shape.size() != 2) {
        return absl::InvalidArgumentError(absl::StrCat(
            "loss.next_token needs outputs for each position, the model's output has shape ",
            ShapeText(output_shape)));
      }
      return CheckClasses(dataset, output_shape[1], "token");
    case TargetKind::kNumber:
      break;
  }
  // A single number has no dimension in a file and one of size 1 in an output.
  if (dataset.target_shape() != output_shape &&
      (NumValues(dataset.target_shape()) != 1 || NumValues(output_shape) != 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss.mse needs targets of the output's shape ", ShapeText(output_shape),
                     ", those of the data have shape ", ShapeText(dataset.target_shape())));
  }
  return absl::OkStatus();
}

int64_t IgnoreIndex(const accel::v1::LossSpec& loss) {
  const auto given = [](const auto& message) {
    return message.has_ignore_index() ? message.ignore_index() : kDefaultIgnoreIndex;
  };
  return loss.has_next_token() ? given(loss.next_token()) : given(loss.cross_entropy());
}

at::Tensor ComputeLoss(const accel::v1::LossSpec& loss, const at::Tensor& output,
                       const at::Tensor& targets, LossReduction reduction) {
  const int64_t kind = reduction == LossReduction::kSum ? at::Reduction::Sum : at::Reduction::Mean;
  if (loss.has_mse()) return at::mse_loss(output, targets.view_as(output), kind);
  const int64_t ignored = IgnoreIndex(loss);
  if (loss.has_next_token()) {
    return at::cross_entropy_loss(output.view({-1, output.size(-1)}), targets.reshape({-1}),
                                  /*weight=*/{}, kind, ignored);
  }
  return at::cross_entropy_loss(output, targets, /*weight=*/{}, kind, ignored,
                                loss.cross_entropy().label_smoothing());
}

int64_t CountItems(const accel::v1::LossSpec& loss, const at::Tensor& targets) {
  if (loss.has_mse()) return targets.numel();
  return targets.ne(IgnoreIndex(loss)).sum().item<int64_t>();
}

void AddToEvaluation(const accel::v1::LossSpec& loss, const at::Tensor& output,
                     const at::Tensor& targets, int64_t valid, EvaluationSums* sums) {
  if (valid == 0) return;
  const at::Tensor outputs = output.narrow(0, 0, valid);
  const at::Tensor kept = targets.narrow(0, 0, valid);
  sums->loss_sum += ComputeLoss(loss, outputs, kept, LossReduction::kSum).item<double>();
  sums->count += CountItems(loss, kept);
  if (loss.has_cross_entropy()) {
    sums->correct += outputs.argmax(1).eq(kept).sum().item<int64_t>();
  }
}

std::map<std::string, double> EvaluationMetrics(const accel::v1::LossSpec& loss,
                                                const EvaluationSums& sums) {
  std::map<std::string, double> metrics;
  if (sums.count == 0) return metrics;
  const double mean_loss = MeanOf(sums.loss_sum, sums.count);
  metrics["eval/loss"] = mean_loss;
  if (loss.has_cross_entropy()) {
    metrics["eval/accuracy"] = MeanOf(static_cast<double>(sums.correct), sums.count);
  }
  if (loss.has_next_token()) metrics["eval/perplexity"] = std::exp(mean_loss);
  return metrics;
}

}  // namespace accel::engine
