#ifndef ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_
#define ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/data_roots.h"

namespace accel::engine {

// What a file holds, before normalisation: any integer or float type, first dimension = samples,
// the same for both.
struct RawTensors {
  at::Tensor features;
  at::Tensor targets;
};

// Each reads `spec.file` (and the target file) in the format that `spec` has set. Errors as
// LoadDataset.
absl::StatusOr<RawTensors> ReadNpyDataset(const accel::v1::Dataset& spec, const DataRoots& roots);
absl::StatusOr<RawTensors> ReadIdxDataset(const accel::v1::Dataset& spec, const DataRoots& roots);

// One .npy array, version 1 to 3, C order, little endian, any integer or float type of up to 8
// bytes or bool.
absl::StatusOr<at::Tensor> ReadNpy(absl::string_view name, const DataRoots& roots);

// The rows of a .npy array from the first to the last. Errors as ReadNpy; not thread-safe.
class NpyReader {
 public:
  // INVALID_ARGUMENT (MALFORMED_DATA) for an array without dimensions.
  static absl::StatusOr<NpyReader> Open(absl::string_view name, const DataRoots& roots);

  // Rows of the whole array.
  int64_t rows() const { return rows_; }

  // The next rows, up to `count`; fewer only at the end, an undefined tensor behind it.
  absl::StatusOr<at::Tensor> Read(int64_t count);

 private:
  NpyReader() = default;

  std::unique_ptr<ByteSource> source_;
  at::ScalarType type_ = at::kFloat;
  // Of the last Read's result.
  std::vector<int64_t> shape_;
  size_t row_bytes_ = 0;
  int64_t rows_ = 0;
  int64_t rows_read_ = 0;
  bool ended_ = false;
};

// The last column of [n, columns] as targets, the others as features.
absl::StatusOr<RawTensors> SplitLastColumn(absl::string_view name, const at::Tensor& table);

// One idx array; multi-byte values come in the machine's byte order.
absl::StatusOr<at::Tensor> ReadIdx(absl::string_view name, const DataRoots& roots);

// A whole file as uint8 [size], decompressed where the name ends in .gz.
absl::StatusOr<at::Tensor> ReadBytes(absl::string_view name, const DataRoots& roots);

// INVALID_ARGUMENT (MALFORMED_DATA) where features and targets have different numbers of samples or
// none.
absl::Status CheckSamples(absl::string_view features_name, const at::Tensor& features,
                          absl::string_view targets_name, const at::Tensor& targets);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_
