#include "core/base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace accel {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Length of the well-formed sequence at the start of `bytes`, which is not empty; 0 for none.
size_t SequenceLength(absl::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes.size() < length) return 0;
  if (!std::all_of(bytes.begin() + 1, bytes.begin() + length, IsContinuation)) return 0;
  const auto second = static_cast<uint8_t>(bytes[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::string RepairUtf8(absl::string_view bytes) {
  std::string repaired;
  repaired.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    const absl::string_view piece = length == 0 ? kReplacement : bytes.substr(0, length);
    repaired.append(piece.data(), piece.size());
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return repaired;
}

absl::string_view CutUtf8(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && IsContinuation(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace accel
