#include "server/supervisor/log_capture.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace accel::supervisor {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Length of the well-formed sequence at the start of `bytes`, 0 for none (Unicode 15, table 3-7).
size_t SequenceLength(absl::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes.size() < length) return 0;
  if (!std::all_of(bytes.begin() + 1, bytes.begin() + length, IsContinuation)) return 0;
  const bool overlong = (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xF0 && at(1) < 0x90);
  const bool surrogate = lead == 0xED && at(1) > 0x9F;
  const bool too_large = lead == 0xF4 && at(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

// Cuts well-formed UTF-8 between two characters.
void CutUtf8(std::string* text, size_t max_bytes) {
  size_t end = max_bytes;
  while (end > 0 && IsContinuation((*text)[end])) --end;
  text->resize(end);
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

void LineSplitter::Feed(absl::string_view bytes, OnLine on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    Keep(bytes.substr(0, end));
    if (end == absl::string_view::npos) return;
    EndLine(on_line);
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(OnLine on_line) {
  if (!line_.empty()) EndLine(on_line);
}

void LineSplitter::Keep(absl::string_view part) {
  // Room for one character that the cut would otherwise tear, and for a carriage return.
  constexpr size_t kRoom = kMaxLineBytes + 4;
  const size_t kept = std::min(part.size(), kRoom - line_.size());
  line_.append(part.data(), kept);
  if (kept < part.size()) truncated_ = true;
}

void LineSplitter::EndLine(OnLine on_line) {
  if (!truncated_ && !line_.empty() && line_.back() == '\r') line_.pop_back();
  std::string text = RepairUtf8(line_);
  bool truncated = std::exchange(truncated_, false);
  line_.clear();
  if (text.size() > kMaxLineBytes) {
    CutUtf8(&text, kMaxLineBytes);
    truncated = true;
  }
  on_line(std::move(text), truncated);
}

}  // namespace accel::supervisor
