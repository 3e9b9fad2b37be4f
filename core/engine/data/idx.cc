#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/data/array.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {
namespace {

absl::StatusOr<at::ScalarType> TypeOf(absl::string_view file, unsigned char code) {
  switch (code) {
    case 0x08:
      return at::kByte;
    case 0x09:
      return at::kChar;
    case 0x0b:
      return at::kShort;
    case 0x0c:
      return at::kInt;
    case 0x0d:
      return at::kFloat;
    case 0x0e:
      return at::kDouble;
    default:
      return MalformedData(file, absl::StrCat("idx type ", code, " is unknown"));
  }
}

// idx files are big-endian.
void ToNativeOrder(const at::Tensor& array) {
  const int64_t size = array.element_size();
  if (size == 1) return;
  char* const begin = static_cast<char*>(array.data_ptr());
  for (char* value = begin; value != begin + array.nbytes(); value += size) {
    std::reverse(value, value + size);
  }
}

}  // namespace

absl::StatusOr<at::Tensor> ReadIdx(absl::string_view name, const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenByteSource(name, roots));
  unsigned char magic[4];
  ACCEL_RETURN_IF_ERROR(
      source->ReadExactly(reinterpret_cast<char*>(magic), sizeof(magic), "magic number"));
  if (magic[0] != 0 || magic[1] != 0) {
    return MalformedData(name, "is no idx file: wrong magic number");
  }
  ACCEL_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(name, magic[2]));
  std::vector<int64_t> shape;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char size[4];
    ACCEL_RETURN_IF_ERROR(
        source->ReadExactly(reinterpret_cast<char*>(size), sizeof(size), "dimensions"));
    shape.push_back(int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
  }
  ACCEL_ASSIGN_OR_RETURN(at::Tensor array, ReadArray(*source, shape, type));
  ToNativeOrder(array);
  return array;
}

absl::StatusOr<RawTensors> ReadIdxDataset(const accel::v1::Dataset& spec, const DataRoots& roots) {
  const std::string& target_file = spec.idx().target_file();
  RawTensors raw;
  ACCEL_ASSIGN_OR_RETURN(raw.features, ReadIdx(spec.file(), roots));
  ACCEL_ASSIGN_OR_RETURN(raw.targets, ReadIdx(target_file, roots));
  if (raw.targets.dim() != 1) {
    return MalformedData(
        target_file, absl::StrCat("labels have shape [", absl::StrJoin(raw.targets.sizes(), ", "),
                                  "], one dimension is needed"));
  }
  ACCEL_RETURN_IF_ERROR(CheckSamples(spec.file(), raw.features, target_file, raw.targets));
  return raw;
}

}  // namespace accel::engine
