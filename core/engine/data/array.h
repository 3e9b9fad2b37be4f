#ifndef ACCEL_CORE_ENGINE_DATA_ARRAY_H_
#define ACCEL_CORE_ENGINE_DATA_ARRAY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/data/byte_source.h"

namespace accel::engine {

// Bytes of an array; none where a dimension is negative, there are more than 64, or the size does
// not fit in 63 bits.
std::optional<int64_t> ArrayBytes(const std::vector<int64_t>& shape, int64_t element_size);

// A tensor of `shape` that owns `contents`, which has exactly its bytes.
at::Tensor TensorOver(std::string contents, const std::vector<int64_t>& shape, at::ScalarType type);

// The rest of `source` as an array in C order, in the machine's byte order. Memory is taken as the
// bytes come, so that a header that lies costs nothing. INVALID_ARGUMENT (MALFORMED_DATA) unless
// the rest of the file is exactly the array.
absl::StatusOr<at::Tensor> ReadArray(ByteSource& source, const std::vector<int64_t>& shape,
                                     at::ScalarType type);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_ARRAY_H_
