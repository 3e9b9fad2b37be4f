#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/csv.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/prepare.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {
namespace {

absl::StatusOr<RawTensors> ReadCsvDataset(const accel::v1::Dataset& spec, TargetKind kind,
                                          const DataRoots& roots, int64_t ignore_index) {
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source,
                         OpenByteSource(spec.file(), roots));
  ACCEL_ASSIGN_OR_RETURN(CsvTable table, ReadCsv(*source, spec.csv(), kind == TargetKind::kClass,
                                                 static_cast<double>(ignore_index)));
  return TensorsOf(std::move(table));
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

absl::StatusOr<std::shared_ptr<const Dataset>> LoadWindows(const accel::v1::Dataset& spec,
                                                           const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(const WindowShape shape, WindowShapeOf(spec));
  ACCEL_ASSIGN_OR_RETURN(const at::Tensor tokens, ReadBytes(spec.file(), roots));
  if (tokens.size(0) <= shape.length) {
    return MalformedData(
        spec.file(), absl::StrCat("has ", tokens.size(0), " bytes, a sequence of ", shape.length,
                                  " and its targets need ", shape.length + 1));
  }
  return std::make_shared<WindowDataset>(tokens, shape.length, shape.stride);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> LoadDataset(const accel::v1::Dataset& spec,
                                                           TargetKind kind, const DataRoots& roots,
                                                           int64_t ignore_index) {
  ACCEL_RETURN_IF_ERROR(CheckFormatGoesWith(spec, kind));
  if (spec.has_bytes()) return LoadWindows(spec, roots);
  ACCEL_ASSIGN_OR_RETURN(RawTensors raw, ReadRaw(spec, kind, roots, ignore_index));
  ACCEL_ASSIGN_OR_RETURN(Examples examples, PrepareExamples(spec, std::move(raw), kind,
                                                            ignore_index, /*first_sample=*/0));
  return std::make_shared<InMemoryDataset>(std::move(examples.features),
                                           std::move(examples.targets), ignore_index);
}

}  // namespace accel::engine
