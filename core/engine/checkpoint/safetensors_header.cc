#include "core/engine/checkpoint/safetensors_header.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/data/array.h"

namespace accel::engine {
namespace {

using Json = nlohmann::json;
using Entry = SafetensorsReader::Entry;

constexpr absl::string_view kMetadata = "__metadata__";

constexpr std::pair<absl::string_view, at::ScalarType> kTypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool},
};

// Names come from the file.
std::string Quote(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Parses JSON; the parser itself would let the last of equal names win.
absl::StatusOr<Json> ParseUnique(absl::string_view text) {
  std::vector<std::set<std::string>> names;
  std::string duplicate;
  const auto check = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key &&
        !names.back().insert(value.get<std::string>()).second) {
      duplicate = value.get<std::string>();
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), check, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return Invalid("the header is no JSON object");
  if (!duplicate.empty()) return Invalid(absl::StrCat("name ", Quote(duplicate), " comes twice"));
  return json;
}

std::optional<int64_t> NonNegative(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<std::vector<int64_t>> NonNegativeList(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& element : value) {
    const std::optional<int64_t> number = NonNegative(element);
    if (!number.has_value()) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

absl::StatusOr<at::ScalarType> TypeOf(const Json& value) {
  if (value.is_string()) {
    for (const auto& [name, type] : kTypes) {
      if (value.get_ref<const std::string&>() == name) return type;
    }
  }
  return Invalid(absl::StrCat("has dtype ",
                              Quote(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
                              ", supported are F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL"));
}

absl::StatusOr<Entry> ParseEntry(const std::string& name, const Json& value, int64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return Invalid("needs dtype, shape and data_offsets and nothing else");
  }
  Entry entry;
  entry.name = name;
  ACCEL_ASSIGN_OR_RETURN(entry.dtype, TypeOf(value["dtype"]));
  auto shape = NonNegativeList(value["shape"]);
  const auto offsets = NonNegativeList(value["data_offsets"]);
  if (!shape.has_value()) return Invalid("has a shape that is no list of sizes");
  if (!offsets.has_value() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1] ||
      (*offsets)[1] > data_bytes) {
    return Invalid(
        absl::StrCat("has data_offsets that are no range within ", data_bytes, " bytes"));
  }
  entry.shape = *std::move(shape);
  entry.offset = (*offsets)[0];
  entry.size = (*offsets)[1] - (*offsets)[0];
  const auto wanted = ArrayBytes(entry.shape, static_cast<int64_t>(c10::elementSize(entry.dtype)));
  if (wanted != entry.size) {
    return Invalid(absl::StrCat("has ", entry.size, " bytes, which its shape [",
                                absl::StrJoin(entry.shape, ", "), "] and dtype do not come to"));
  }
  return entry;
}

absl::Status CheckCoverage(const std::vector<Entry>& entries, int64_t data_bytes) {
  int64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.offset != end) {
      return Invalid(absl::StrCat("tensor ", Quote(entry.name), " begins at ", entry.offset,
                                  ", the one before it ends at ", end));
    }
    end += entry.size;
  }
  if (end == data_bytes) return absl::OkStatus();
  return Invalid(absl::StrCat("tensors of ", end, " bytes lie in ", data_bytes));
}

absl::StatusOr<std::map<std::string, std::string>> ParseMetadata(const Json& value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) return Invalid("__metadata__ is no object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Invalid("__metadata__ has a value that is no string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

absl::string_view SafetensorsTypeName(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return name;
  }
  return "";
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes) {
  ACCEL_ASSIGN_OR_RETURN(const Json json, ParseUnique(text));
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      ACCEL_ASSIGN_OR_RETURN(header.metadata, ParseMetadata(value));
      continue;
    }
    absl::StatusOr<Entry> entry = ParseEntry(name, value, data_bytes);
    if (!entry.ok()) {
      return Invalid(absl::StrCat("tensor ", Quote(name), " ", entry.status().message()));
    }
    header.entries.push_back(*std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
  });
  ACCEL_RETURN_IF_ERROR(CheckCoverage(header.entries, data_bytes));
  return header;
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[std::string(kMetadata)] = header.metadata;
  for (const Entry& entry : header.entries) {
    nlohmann::ordered_json value;
    value["dtype"] = std::string(SafetensorsTypeName(entry.dtype));
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.offset, entry.offset + entry.size};
    json[entry.name] = std::move(value);
  }
  return json.dump();
}

}  // namespace accel::engine
