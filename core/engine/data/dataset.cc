#include "core/engine/data/dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>

#include <utility>

namespace accel::engine {

TargetKind TargetKindOf(const accel::v1::LossSpec& loss) {
  if (loss.has_next_token()) return TargetKind::kNextToken;
  return loss.has_mse() ? TargetKind::kNumber : TargetKind::kClass;
}

InMemoryDataset::InMemoryDataset(at::Tensor features, at::Tensor targets, int64_t ignore_index)
    : features_(std::move(features)), targets_(std::move(targets)) {
  if (target_kind() != TargetKind::kClass) return;
  num_classes_ = targets_.masked_fill(targets_ == ignore_index, -1).max().item<int64_t>() + 1;
}

TargetKind InMemoryDataset::target_kind() const {
  return targets_.scalar_type() == at::kLong ? TargetKind::kClass : TargetKind::kNumber;
}

int64_t InMemoryDataset::size() const { return features_.size(0); }

std::vector<int64_t> InMemoryDataset::feature_shape() const {
  return features_.sizes().slice(1).vec();
}

std::vector<int64_t> InMemoryDataset::target_shape() const {
  return targets_.sizes().slice(1).vec();
}

Examples InMemoryDataset::Get(const at::Tensor& indices) const {
  return {at::index_select(features_, 0, indices), at::index_select(targets_, 0, indices)};
}

WindowDataset::WindowDataset(at::Tensor tokens, int64_t length, int64_t stride)
    : tokens_(std::move(tokens)), length_(length), stride_(stride) {
  num_classes_ = tokens_.max().item<int64_t>() + 1;
}

int64_t WindowDataset::size() const { return (tokens_.size(0) - length_ - 1) / stride_ + 1; }

Examples WindowDataset::Get(const at::Tensor& indices) const {
  const at::Tensor positions =
      (indices * stride_).unsqueeze(1) + at::arange(length_ + 1, at::TensorOptions(at::kLong));
  const at::Tensor windows = at::index_select(tokens_, 0, positions.view({-1}))
                                 .to(at::kLong)
                                 .view({indices.size(0), length_ + 1});
  return {windows.narrow(1, 0, length_).contiguous(), windows.narrow(1, 1, length_).contiguous()};
}

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> whole, at::Tensor indices)
    : whole_(std::move(whole)), indices_(std::move(indices)) {}

int64_t SubsetDataset::size() const { return indices_.size(0); }

Examples SubsetDataset::Get(const at::Tensor& indices) const {
  return whole_->Get(at::index_select(indices_, 0, indices));
}

DatasetDescription Describe(const Dataset& dataset) {
  return {dataset.target_kind(), dataset.size(), dataset.feature_shape(), dataset.target_shape(),
          dataset.num_classes()};
}

Examples DescribedDataset::Get(const at::Tensor&) const {
  TORCH_CHECK(false, "the samples of this data set are not here");
}

}  // namespace accel::engine
