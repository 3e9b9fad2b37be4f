#ifndef ACCEL_CORE_ENGINE_DATA_DATASET_H_
#define ACCEL_CORE_ENGINE_DATA_DATASET_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/training.pb.h"
#include "core/engine/data/data_roots.h"

namespace accel::engine {

// What the targets of a data set are.
enum class TargetKind {
  kClass,      // one class number a sample
  kNumber,     // numbers
  kNextToken,  // the token that follows each token of the features
};

// The class number of targets that do not count, where a job names none.
inline constexpr int64_t kDefaultIgnoreIndex = -100;

// What `loss` needs.
TargetKind TargetKindOf(const accel::v1::LossSpec& loss);

// Samples with their targets; n is the number of samples asked for.
//   kClass:     features float32 [n, ...], targets int64 [n]
//   kNumber:    features float32 [n, ...], targets float32 [n] or [n, ...]
//   kNextToken: features int64 [n, sequence_length], targets int64 of the same shape
struct Examples {
  at::Tensor features;
  at::Tensor targets;
};

// Samples on the CPU that can be read in any order. Immutable.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual TargetKind target_kind() const = 0;

  // Number of samples, at least 1.
  virtual int64_t size() const = 0;

  // Shape of one sample's features and targets, without the batch dimension.
  virtual std::vector<int64_t> feature_shape() const = 0;
  virtual std::vector<int64_t> target_shape() const = 0;

  // Smallest number of classes (kClass) or tokens (kNextToken) that the data needs; 0 for kNumber.
  virtual int64_t num_classes() const = 0;

  // New tensors with the samples `indices` (int64 [n], each in [0, size)), in that order.
  virtual Examples Get(const at::Tensor& indices) const = 0;
};

// Samples held as tensors, first dimension = samples.
class InMemoryDataset : public Dataset {
 public:
  // float32 features; int64 targets [n] (kClass) or float32 targets (kNumber). Targets
  // `ignore_index` are no class.
  InMemoryDataset(at::Tensor features, at::Tensor targets,
                  int64_t ignore_index = kDefaultIgnoreIndex);

  TargetKind target_kind() const override;
  int64_t size() const override;
  std::vector<int64_t> feature_shape() const override;
  std::vector<int64_t> target_shape() const override;
  int64_t num_classes() const override { return num_classes_; }
  Examples Get(const at::Tensor& indices) const override;

 private:
  const at::Tensor features_;
  const at::Tensor targets_;
  int64_t num_classes_ = 0;
};

// Windows over a sequence of tokens: sample i is tokens [i * stride, i * stride + length), its
// targets are the tokens one further on.
class WindowDataset : public Dataset {
 public:
  // `tokens` is uint8 [m] with m > length; length and stride are at least 1.
  WindowDataset(at::Tensor tokens, int64_t length, int64_t stride);

  TargetKind target_kind() const override { return TargetKind::kNextToken; }
  int64_t size() const override;
  std::vector<int64_t> feature_shape() const override { return {length_}; }
  std::vector<int64_t> target_shape() const override { return {length_}; }
  int64_t num_classes() const override { return num_classes_; }
  Examples Get(const at::Tensor& indices) const override;

 private:
  const at::Tensor tokens_;
  const int64_t length_;
  const int64_t stride_;
  int64_t num_classes_ = 0;
};

// Some of the samples of another data set.
class SubsetDataset : public Dataset {
 public:
  // `indices` (int64 [k]) are samples of `whole`.
  SubsetDataset(std::shared_ptr<const Dataset> whole, at::Tensor indices);

  TargetKind target_kind() const override { return whole_->target_kind(); }
  int64_t size() const override;
  std::vector<int64_t> feature_shape() const override { return whole_->feature_shape(); }
  std::vector<int64_t> target_shape() const override { return whole_->target_shape(); }
  int64_t num_classes() const override { return whole_->num_classes(); }
  Examples Get(const at::Tensor& indices) const override;

 private:
  const std::shared_ptr<const Dataset> whole_;
  const at::Tensor indices_;
};

// What there is to know of a data set without its samples.
struct DatasetDescription {
  TargetKind target_kind = TargetKind::kClass;
  // 0 where only its end tells.
  int64_t size = 0;
  std::vector<int64_t> feature_shape;
  std::vector<int64_t> target_shape;
  int64_t num_classes = 0;
};

DatasetDescription Describe(const Dataset& dataset);

// A data set whose samples are elsewhere: on another rank, or in a stream. Get must not be called.
class DescribedDataset : public Dataset {
 public:
  explicit DescribedDataset(DatasetDescription description)
      : description_(std::move(description)) {}

  TargetKind target_kind() const override { return description_.target_kind; }
  int64_t size() const override { return description_.size; }
  std::vector<int64_t> feature_shape() const override { return description_.feature_shape; }
  std::vector<int64_t> target_shape() const override { return description_.target_shape; }
  int64_t num_classes() const override { return description_.num_classes; }
  Examples Get(const at::Tensor& indices) const override;

 private:
  const DatasetDescription description_;
};

// Reads a data set, normalised and shaped as `spec` says. Errors are about the data: NOT_FOUND for
// a missing file or tensor, INVALID_ARGUMENT for contents that cannot be used (ErrorInfo
// MALFORMED_DATA where the file is malformed), RESOURCE_EXHAUSTED for more values than are allowed.
// Of all negative class numbers only `ignore_index` is allowed.
absl::StatusOr<std::shared_ptr<const Dataset>> LoadDataset(
    const accel::v1::Dataset& spec, TargetKind kind, const DataRoots& roots,
    int64_t ignore_index = kDefaultIgnoreIndex);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_DATASET_H_
