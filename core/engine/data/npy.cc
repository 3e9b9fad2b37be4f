#include <c10/core/ScalarType.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/engine/data/array.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = 65536;

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

absl::StatusOr<at::ScalarType> TypeOf(absl::string_view file, absl::string_view descr) {
  static constexpr std::pair<absl::string_view, at::ScalarType> kTypes[] = {
      {"b1", at::kBool},   {"i1", at::kChar}, {"i2", at::kShort},  {"i4", at::kInt},
      {"i8", at::kLong},   {"u1", at::kByte}, {"u2", at::kUInt16}, {"u4", at::kUInt32},
      {"u8", at::kUInt64}, {"f2", at::kHalf}, {"f4", at::kFloat},  {"f8", at::kDouble},
  };
  if (!descr.empty() && descr[0] == '>') {
    return MalformedData(file, absl::StrCat("dtype ", descr,
                                            " is big-endian, which is not supported: save "
                                            "it as little-endian"));
  }
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '|')) {
    for (const auto& [code, type] : kTypes) {
      if (descr.substr(1) == code) return type;
    }
  }
  return MalformedData(
      file, absl::StrCat("dtype \"", descr.substr(0, 40),
                         "\" is not supported: an integer or float type of up to 8 bytes is"));
}

// The header is a Python literal; with brackets for its parentheses it is a YAML flow mapping.
absl::StatusOr<NpyHeader> ParseHeader(absl::string_view file, absl::string_view text) {
  NpyHeader header;
  try {
    const YAML::Node node = YAML::Load(absl::StrReplaceAll(text, {{"(", "["}, {")", "]"}}));
    if (!node.IsMap() || !node["descr"] || !node["fortran_order"] || !node["shape"]) {
      return MalformedData(file, "the header has no descr, fortran_order and shape");
    }
    if (!node["descr"].IsScalar()) {
      return MalformedData(file, "structured dtypes are not supported");
    }
    if (!node["shape"].IsSequence()) return MalformedData(file, "the header's shape is no tuple");
    header.descr = node["descr"].as<std::string>();
    header.fortran_order = node["fortran_order"].as<bool>();
    for (const YAML::Node& dimension : node["shape"]) {
      int64_t size = 0;
      if (!absl::SimpleAtoi(dimension.as<std::string>(), &size)) {
        return MalformedData(file, "the header's shape has something that is no number");
      }
      header.shape.push_back(size);
    }
  } catch (const YAML::Exception& error) {
    return MalformedData(file, absl::StrCat("bad header: ", error.what()));
  }
  return header;
}

absl::StatusOr<NpyHeader> ReadHeader(ByteSource& source) {
  char start[8];
  ACCEL_RETURN_IF_ERROR(source.ReadExactly(start, sizeof(start), "magic number"));
  if (absl::string_view(start, kMagic.size()) != kMagic) {
    return MalformedData(source.name(), "is no .npy file: wrong magic number");
  }
  const int version = static_cast<unsigned char>(start[6]);
  if (version < 1 || version > 3) {
    return MalformedData(source.name(), absl::StrCat("version ", version, " of .npy is unknown"));
  }
  unsigned char length[4] = {};
  ACCEL_RETURN_IF_ERROR(
      source.ReadExactly(reinterpret_cast<char*>(length), version == 1 ? 2 : 4, "header's size"));
  const size_t size = length[0] | length[1] << 8 | length[2] << 16 | size_t{length[3]} << 24;
  if (size > kMaxHeaderBytes) {
    return MalformedData(source.name(), absl::StrCat("header of ", size, " bytes, at most ",
                                                     kMaxHeaderBytes, " are allowed"));
  }
  ACCEL_ASSIGN_OR_RETURN(const std::string text, source.ReadString(size, "header"));
  return ParseHeader(source.name(), text);
}

// A file of which the header is read.
struct OpenArray {
  std::unique_ptr<ByteSource> source;
  std::vector<int64_t> shape;
  at::ScalarType type = at::kFloat;
};

absl::StatusOr<OpenArray> OpenNpy(absl::string_view name, const DataRoots& roots) {
  OpenArray array;
  ACCEL_ASSIGN_OR_RETURN(array.source, OpenPlainByteSource(name, roots));
  ACCEL_ASSIGN_OR_RETURN(NpyHeader header, ReadHeader(*array.source));
  ACCEL_ASSIGN_OR_RETURN(array.type, TypeOf(name, header.descr));
  if (header.fortran_order && header.shape.size() > 1) {
    return MalformedData(name, "Fortran order is not supported: save it in C order");
  }
  array.shape = std::move(header.shape);
  return array;
}

}  // namespace

absl::StatusOr<at::Tensor> ReadNpy(absl::string_view name, const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(const OpenArray array, OpenNpy(name, roots));
  return ReadArray(*array.source, array.shape, array.type);
}

absl::StatusOr<NpyReader> NpyReader::Open(absl::string_view name, const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(OpenArray array, OpenNpy(name, roots));
  if (array.shape.empty()) return MalformedData(name, "has no dimension for the samples");
  const std::vector<int64_t> row(array.shape.begin() + 1, array.shape.end());
  const std::optional<int64_t> row_bytes =
      ArrayBytes(row, static_cast<int64_t>(c10::elementSize(array.type)));
  if (array.shape[0] < 0 || !row_bytes.has_value()) {
    return MalformedData(name,
                         absl::StrCat("impossible shape [", absl::StrJoin(array.shape, ", "), "]"));
  }
  NpyReader reader;
  reader.source_ = std::move(array.source);
  reader.type_ = array.type;
  reader.rows_ = array.shape[0];
  reader.shape_ = std::move(array.shape);
  reader.row_bytes_ = static_cast<size_t>(*row_bytes);
  return reader;
}

absl::StatusOr<at::Tensor> NpyReader::Read(int64_t count) {
  const int64_t wanted = std::min(count, rows_ - rows_read_);
  if (wanted <= 0) {
    if (!std::exchange(ended_, true)) ACCEL_RETURN_IF_ERROR(source_->ExpectEnd());
    return at::Tensor();
  }
  ACCEL_ASSIGN_OR_RETURN(
      std::string contents,
      source_->ReadString(static_cast<size_t>(wanted) * row_bytes_,
                          absl::StrCat("samples ", rows_read_, " to ", rows_read_ + wanted - 1)));
  rows_read_ += wanted;
  shape_[0] = wanted;
  return TensorOver(std::move(contents), shape_, type_);
}

absl::StatusOr<RawTensors> SplitLastColumn(absl::string_view name, const at::Tensor& table) {
  if (table.dim() != 2 || table.size(1) < 2) {
    return MalformedData(name,
                         absl::StrCat("has shape [", absl::StrJoin(table.sizes(), ", "),
                                      "]: without npy.target_file, two dimensions and at least two "
                                      "columns are needed, the last one for the targets"));
  }
  RawTensors raw;
  raw.targets = table.select(1, table.size(1) - 1);
  raw.features = table.narrow(1, 0, table.size(1) - 1);
  return raw;
}

absl::StatusOr<RawTensors> ReadNpyDataset(const accel::v1::Dataset& spec, const DataRoots& roots) {
  RawTensors raw;
  ACCEL_ASSIGN_OR_RETURN(raw.features, ReadNpy(spec.file(), roots));
  if (spec.npy().has_target_file()) {
    ACCEL_ASSIGN_OR_RETURN(raw.targets, ReadNpy(spec.npy().target_file(), roots));
    ACCEL_RETURN_IF_ERROR(
        CheckSamples(spec.file(), raw.features, spec.npy().target_file(), raw.targets));
    return raw;
  }
  ACCEL_ASSIGN_OR_RETURN(raw, SplitLastColumn(spec.file(), raw.features));
  ACCEL_RETURN_IF_ERROR(CheckSamples(spec.file(), raw.features, spec.file(), raw.targets));
  return raw;
}

}  // namespace accel::engine
