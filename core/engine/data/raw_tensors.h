#ifndef ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_
#define ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/data.pb.h"
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

// One idx array; multi-byte values come in the machine's byte order.
absl::StatusOr<at::Tensor> ReadIdx(absl::string_view name, const DataRoots& roots);

// A whole file as uint8 [size].
absl::StatusOr<at::Tensor> ReadBytes(absl::string_view name, const DataRoots& roots);

// INVALID_ARGUMENT (MALFORMED_DATA) where features and targets have different numbers of samples or
// none.
absl::Status CheckSamples(absl::string_view features_name, const at::Tensor& features,
                          absl::string_view targets_name, const at::Tensor& targets);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_RAW_TENSORS_H_
