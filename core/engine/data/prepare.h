#ifndef ACCEL_CORE_ENGINE_DATA_PREPARE_H_
#define ACCEL_CORE_ENGINE_DATA_PREPARE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/csv.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {

// Features and targets as `spec` and `kind` want them: normalised, shaped, checked; of all negative
// class numbers only `ignore_index` is allowed. The first one is sample `first_sample` of the file,
// for messages. Errors as LoadDataset.
absl::StatusOr<Examples> PrepareExamples(const accel::v1::Dataset& spec, RawTensors raw,
                                         TargetKind kind, int64_t ignore_index,
                                         int64_t first_sample);

// A table's features [rows, columns] and targets [rows].
RawTensors TensorsOf(CsvTable table);

// INVALID_ARGUMENT unless tokens are read where tokens are wanted.
absl::Status CheckFormatGoesWith(const accel::v1::Dataset& spec, TargetKind kind);

// Windows of accel.v1.BytesFormat.
struct WindowShape {
  int64_t length = 0;
  int64_t stride = 0;
};
absl::StatusOr<WindowShape> WindowShapeOf(const accel::v1::Dataset& spec);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_PREPARE_H_
