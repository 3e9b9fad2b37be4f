#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_HEADER_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/checkpoint/safetensors.h"

namespace accel::engine {

// The JSON header of a safetensors file. Offsets of its entries count from the end of the header.
struct SafetensorsHeader {
  // Sorted by offset.
  std::vector<SafetensorsReader::Entry> entries;
  std::map<std::string, std::string> metadata;
};

// Reads a header in front of `data_bytes` bytes of tensors, which they must fill without gap or
// overlap. An error says what is wrong, without the file's name.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes);

// The header's text, entries in the given order.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

// The format's name of a type; empty where it has none.
absl::string_view SafetensorsTypeName(at::ScalarType type);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_HEADER_H_
