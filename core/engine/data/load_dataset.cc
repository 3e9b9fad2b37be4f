#include <ATen/ops/from_blob.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/data/array.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/csv.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {
namespace {

// A tensor that owns a vector's memory.
template <typename T>
at::Tensor TensorOf(std::vector<T> values, std::vector<int64_t> shape, at::ScalarType type) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, at::TensorOptions(type));
}

absl::StatusOr<RawTensors> ReadCsvDataset(const accel::v1::Dataset& spec, TargetKind kind,
                                          const DataRoots& roots, int64_t ignore_index) {
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                         OpenByteSource(spec.file(), roots));
  ACCEL_ASSIGN_OR_RETURN(CsvTable table, ReadCsv(*source, spec.csv(), kind == TargetKind::kClass,
                                                 static_cast<double>(ignore_index)));
  const auto rows = static_cast<int64_t>(table.targets.size());
  RawTensors raw;
  raw.features = TensorOf(std::move(table.features), {rows, table.columns}, at::kFloat);
  raw.targets = TensorOf(std::move(table.targets), {rows}, at::kDouble);
  return raw;
}

absl::StatusOr<RawTensors> ReadSafetensorsDataset(const accel::v1::Dataset& spec,
                                                  const DataRoots& roots) {
  const accel::v1::SafetensorsFormat& format = spec.safetensors();
  ACCEL_ASSIGN_OR_RETURN(Fd fd, OpenDataFile(spec.file(), roots));
  ACCEL_ASSIGN_OR_RETURN(const SafetensorsReader reader,
                         SafetensorsReader::Open(std::move(fd), spec.file()));
  RawTensors raw;
  ACCEL_ASSIGN_OR_RETURN(raw.features,
                         reader.Read(format.has_features() ? format.features() : "features"));
  ACCEL_ASSIGN_OR_RETURN(raw.targets,
                         reader.Read(format.has_targets() ? format.targets() : "targets"));
  ACCEL_RETURN_IF_ERROR(CheckSamples(spec.file(), raw.features, spec.file(), raw.targets));
  return raw;
}

absl::StatusOr<RawTensors> ReadRaw(const accel::v1::Dataset& spec, TargetKind kind,
                                   const DataRoots& roots, int64_t ignore_index) {
  switch (spec.format_case()) {
    case accel::v1::Dataset::kCsv:
      return ReadCsvDataset(spec, kind, roots, ignore_index);
    case accel::v1::Dataset::kNpy:
      return ReadNpyDataset(spec, roots);
    case accel::v1::Dataset::kSafetensors:
      return ReadSafetensorsDataset(spec, roots);
    case accel::v1::Dataset::kIdx:
      return ReadIdxDataset(spec, roots);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("data file ", spec.file(), ": no format is set"));
  }
}

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
                       absl::string_view what) {
  const int64_t sample = bad.to(at::kByte).argmax().item<int64_t>();
  return MalformedData(file, absl::StrCat("target ", targets[sample].item<double>(), " of sample ",
                                          sample, " is no ", what));
}

absl::StatusOr<at::Tensor> PrepareTargets(const std::string& file, const at::Tensor& raw,
                                          TargetKind kind, int64_t ignore_index) {
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
  if (bad.any().item<bool>()) return BadTarget(file, flat, bad, "class number");
  return classes.contiguous();
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadWindows(const accel::v1::Dataset& spec,
                                                           const DataRoots& roots) {
  const int64_t length = spec.bytes().sequence_length();
  const int64_t stride = spec.bytes().has_stride() ? spec.bytes().stride() : length;
  if (length < 1 || stride < 1) {
    return absl::InvalidArgumentError(absl::StrCat("bytes.sequence_length ", length, " and stride ",
                                                   stride, " must be at least 1"));
  }
  ACCEL_ASSIGN_OR_RETURN(const at::Tensor tokens, ReadBytes(spec.file(), roots));
  if (tokens.size(0) <= length) {
    return MalformedData(spec.file(), absl::StrCat("has ", tokens.size(0), " bytes, a sequence of ",
                                                   length, " and its targets need ", length + 1));
  }
  return std::make_shared<WindowDataset>(tokens, length, stride);
}

}  // namespace

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

absl::StatusOr<std::shared_ptr<const Dataset>> LoadDataset(const accel::v1::Dataset& spec,
                                                           TargetKind kind, const DataRoots& roots,
                                                           int64_t ignore_index) {
  if (spec.has_bytes() != (kind == TargetKind::kNextToken)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", spec.file(),
                     ": loss.next_token goes with the format bytes, and only with it"));
  }
  if (spec.has_bytes()) return LoadWindows(spec, roots);
  ACCEL_ASSIGN_OR_RETURN(RawTensors raw, ReadRaw(spec, kind, roots, ignore_index));
  ACCEL_ASSIGN_OR_RETURN(at::Tensor features, PrepareFeatures(spec, raw.features));
  raw.features.reset();
  ACCEL_ASSIGN_OR_RETURN(at::Tensor targets,
                         PrepareTargets(spec.file(), raw.targets, kind, ignore_index));
  if (!features.isfinite().all().item<bool>()) {
    return MalformedData(spec.file(), "the features have values that are not finite in fp32");
  }
  if (kind == TargetKind::kNumber && !targets.isfinite().all().item<bool>()) {
    return MalformedData(spec.file(), "the targets have values that are not finite in fp32");
  }
  return std::make_shared<InMemoryDataset>(std::move(features), std::move(targets), ignore_index);
}

}  // namespace accel::engine
