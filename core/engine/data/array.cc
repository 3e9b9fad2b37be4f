#include "core/engine/data/array.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {

std::optional<int64_t> ArrayBytes(const std::vector<int64_t>& shape, int64_t element_size) {
  constexpr size_t kMaxDimensions = 64;
  if (shape.size() > kMaxDimensions) return std::nullopt;
  int64_t bytes = element_size;
  for (const int64_t size : shape) {
    // LibTorch multiplies the non-zero dimensions for strides too, so each must fit.
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      return std::nullopt;
    }
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? bytes : 0;
}

at::Tensor TensorOver(std::string contents, const std::vector<int64_t>& shape,
                      at::ScalarType type) {
  const auto owner = std::make_shared<std::string>(std::move(contents));
  return at::from_blob(
      owner->data(), shape, [owner](void*) {}, at::TensorOptions().dtype(type));
}

absl::StatusOr<at::Tensor> ReadArray(ByteSource& source, const std::vector<int64_t>& shape,
                                     at::ScalarType type) {
  const std::optional<int64_t> bytes =
      ArrayBytes(shape, static_cast<int64_t>(c10::elementSize(type)));
  if (!bytes.has_value()) {
    return MalformedData(source.name(),
                         absl::StrCat("impossible shape [", absl::StrJoin(shape, ", "), "]"));
  }
  ACCEL_ASSIGN_OR_RETURN(std::string contents,
                         source.ReadString(static_cast<size_t>(*bytes), "array"));
  ACCEL_RETURN_IF_ERROR(source.ExpectEnd());
  return TensorOver(std::move(contents), shape, type);
}

absl::StatusOr<at::Tensor> ReadBytes(absl::string_view name, const DataRoots& roots) {
  constexpr size_t kChunk = 1 << 20;
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenByteSource(name, roots));
  std::string contents;
  contents.reserve(source->size());
  for (size_t got = kChunk; got == kChunk;) {
    const size_t used = contents.size();
    contents.resize(used + kChunk);
    ACCEL_ASSIGN_OR_RETURN(got, source->Read(&contents[used], kChunk));
    contents.resize(used + got);
  }
  const auto size = static_cast<int64_t>(contents.size());
  return TensorOver(std::move(contents), {size}, at::kByte);
}

}  // namespace accel::engine
