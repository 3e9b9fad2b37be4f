#include "core/engine/data/prepare.h"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/data/array.h"

namespace accel::engine {
namespace {

// A tensor that owns a vector's memory.
template <typename T>
at::Tensor TensorOf(std::vector<T> values, std::vector<int64_t> shape, at::ScalarType type) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, at::TensorOptions(type));
}

// Index of the first sample that a mask has set.
int64_t FirstSet(const at::Tensor& mask) { return mask.to(at::kByte).argmax().item<int64_t>(); }

absl::StatusOr<at::Tensor> PrepareFeatures(const accel::v1::Dataset& spec, const at::Tensor& raw) {
  at::Tensor features = raw.to(at::kFloat).contiguous();
  if (spec.has_normalization()) {
    const accel::v1::Normalization& normalization = spec.normalization();
    const double scale = normalization.has_scale() ? normalization.scale() : 1;
    const double std = normalization.has_std() ? normalization.std() : 1;
    features = (features * scale).sub_(normalization.mean()).div_(std);
  }
  if (spec.feature_shape().empty()) return features;
  std::vector<int64_t> shape(spec.feature_shape().begin(), spec.feature_shape().end());
  const int64_t wanted = ArrayBytes(shape, 1).value_or(-1);
  const int64_t values = features.numel() / features.size(0);
  if (values != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("feature_shape [", absl::StrJoin(shape, ", "),
                                                   "] has ", wanted, " values, ", spec.file(),
                                                   " has ", values, " in a sample"));
  }
  shape.insert(shape.begin(), features.size(0));
  return features.view(shape);
}

// `bad` is a mask over the samples with at least one set.
absl::Status BadTarget(const std::string& file, const at::Tensor& targets, const at::Tensor& bad,
                       int64_t first_sample, absl::string_view what) {
  const int64_t sample = FirstSet(bad);
  return MalformedData(file, absl::StrCat("target ", targets[sample].item<double>(), " of sample ",
                                          first_sample + sample, " is no ", what));
}

absl::StatusOr<at::Tensor> PrepareTargets(const std::string& file, const at::Tensor& raw,
                                          TargetKind kind, int64_t ignore_index,
                                          int64_t first_sample) {
  if (kind == TargetKind::kNumber) return raw.to(at::kFloat).contiguous();
  if (raw.numel() != raw.size(0)) {
    return MalformedData(file,
                         absl::StrCat("targets have shape [", absl::StrJoin(raw.sizes(), ", "),
                                      "], one class number for each sample is needed"));
  }
  const at::Tensor flat = raw.reshape({-1});
  const at::Tensor classes = flat.to(at::kLong);
  at::Tensor bad = (classes < 0).logical_and_(classes != ignore_index);
  if (flat.is_floating_point())
    bad = bad.logical_or(classes.to(at::kDouble) != flat.to(at::kDouble));
  if (bad.any().item<bool>()) {
    return BadTarget(file, flat, bad, first_sample, "class number");
  }
  return classes.contiguous();
}

absl::Status CheckFinite(const std::string& file, const at::Tensor& values, int64_t first_sample,
                         absl::string_view what) {
  const at::Tensor finite = values.isfinite();
  if (finite.all().item<bool>()) return absl::OkStatus();
  const at::Tensor bad = finite.logical_not().reshape({values.size(0), -1}).any(1);
  return MalformedData(file, absl::StrCat("the ", what, " of sample ", first_sample + FirstSet(bad),
                                          " have values that are not finite in fp32"));
}

}  // namespace

RawTensors TensorsOf(CsvTable table) {
  const auto rows = static_cast<int64_t>(table.targets.size());
  RawTensors raw;
  raw.features = TensorOf(std::move(table.features), {rows, table.columns}, at::kFloat);
  raw.targets = TensorOf(std::move(table.targets), {rows}, at::kDouble);
  return raw;
}

absl::Status CheckSamples(absl::string_view features_name, const at::Tensor& features,
                          absl::string_view targets_name, const at::Tensor& targets) {
  if (features.dim() == 0 || features.numel() == 0) {
    return MalformedData(features_name, "the features have no samples");
  }
  if (targets.dim() == 0 || targets.numel() == 0) {
    return MalformedData(targets_name, "the targets have no samples");
  }
  if (features.size(0) != targets.size(0)) {
    return MalformedData(targets_name,
                         absl::StrCat("has ", targets.size(0), " targets, but ", features_name,
                                      " has features of ", features.size(0), " samples"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Examples> PrepareExamples(const accel::v1::Dataset& spec, RawTensors raw,
                                         TargetKind kind, int64_t ignore_index,
                                         int64_t first_sample) {
  Examples examples;
  ACCEL_ASSIGN_OR_RETURN(examples.features, PrepareFeatures(spec, raw.features));
  raw.features.reset();
  ACCEL_ASSIGN_OR_RETURN(
      examples.targets, PrepareTargets(spec.file(), raw.targets, kind, ignore_index, first_sample));
  ACCEL_RETURN_IF_ERROR(CheckFinite(spec.file(), examples.features, first_sample, "features"));
  if (kind == TargetKind::kNumber) {
    ACCEL_RETURN_IF_ERROR(CheckFinite(spec.file(), examples.targets, first_sample, "targets"));
  }
  return examples;
}

absl::Status CheckFormatGoesWith(const accel::v1::Dataset& spec, TargetKind kind) {
  if (spec.has_bytes() == (kind == TargetKind::kNextToken)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data file ", spec.file(), ": loss.next_token goes with the format bytes, and only with it"));
}

absl::StatusOr<WindowShape> WindowShapeOf(const accel::v1::Dataset& spec) {
  const int64_t length = spec.bytes().sequence_length();
  const int64_t stride = spec.bytes().has_stride() ? spec.bytes().stride() : length;
  if (length >= 1 && stride >= 1) return WindowShape{length, stride};
  return absl::InvalidArgumentError(absl::StrCat("bytes.sequence_length ", length, " and stride ",
                                                 stride, " must be at least 1"));
}

}  // namespace accel::engine
