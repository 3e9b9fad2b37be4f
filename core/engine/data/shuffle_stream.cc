#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/engine/data/sample_stream.h"

namespace accel::engine {
namespace {

class ShuffledStream final : public SampleStream {
 public:
  ShuffledStream(std::unique_ptr<SampleStream> source, int64_t size, uint64_t seed)
      : source_(std::move(source)),
        size_(size),
        generator_(at::detail::createCPUGenerator(seed)),
        drawn_(at::empty({}, at::TensorOptions(at::kLong))) {}

  absl::StatusOr<Examples> Read(int64_t count) override {
    if (!buffer_.features.defined()) ACCEL_RETURN_IF_ERROR(FillBuffer());
    if (filled_ == 0) return Examples{};
    ACCEL_ASSIGN_OR_RETURN(const Examples next, ReadSource(count));
    const int64_t incoming = next.features.defined() ? next.features.size(0) : 0;
    const int64_t given = std::min(count, filled_ + incoming);
    const Examples result{NewRows(buffer_.features, given), NewRows(buffer_.targets, given)};
    for (int64_t i = 0; i < given; ++i) {
      const int64_t drawn = Draw();
      CopyRow(buffer_, drawn, result, i);
      if (i < incoming) {
        CopyRow(next, i, buffer_, drawn);
      } else {
        CopyRow(buffer_, --filled_, buffer_, drawn);
      }
    }
    return result;
  }

 private:
  static at::Tensor NewRows(const at::Tensor& like, int64_t count) {
    std::vector<int64_t> shape = like.sizes().vec();
    shape[0] = count;
    return at::empty(shape, like.options());
  }

  static void CopyRow(const Examples& from, int64_t i, const Examples& to, int64_t j) {
    CopyRow(from.features, i, to.features, j);
    CopyRow(from.targets, i, to.targets, j);
  }

  // Both contiguous: an operator call for each row would take longer than reading it.
  static void CopyRow(const at::Tensor& from, int64_t i, const at::Tensor& to, int64_t j) {
    const size_t bytes = to.nbytes() / static_cast<size_t>(to.size(0));
    std::memmove(static_cast<char*>(to.mutable_data_ptr()) + static_cast<size_t>(j) * bytes,
                 static_cast<const char*>(from.const_data_ptr()) + static_cast<size_t>(i) * bytes,
                 bytes);
  }

  absl::StatusOr<Examples> ReadSource(int64_t count) {
    ACCEL_ASSIGN_OR_RETURN(Examples next, source_->Read(count));
    if (!next.features.defined()) return next;
    return Examples{next.features.contiguous(), next.targets.contiguous()};
  }

  absl::Status FillBuffer() {
    ACCEL_ASSIGN_OR_RETURN(buffer_, ReadSource(size_));
    filled_ = buffer_.features.defined() ? buffer_.features.size(0) : 0;
    return absl::OkStatus();
  }

  // torch.randint(filled, ()).
  int64_t Draw() { return drawn_.random_(0, filled_, generator_).item<int64_t>(); }

  const std::unique_ptr<SampleStream> source_;
  const int64_t size_;
  at::Generator generator_;
  at::Tensor drawn_;
  Examples buffer_;
  int64_t filled_ = 0;
};

}  // namespace

std::unique_ptr<SampleStream> ShuffleStream(std::unique_ptr<SampleStream> source, int64_t size,
                                            uint64_t seed) {
  return std::make_unique<ShuffledStream>(std::move(source), size, seed);
}

}  // namespace accel::engine
