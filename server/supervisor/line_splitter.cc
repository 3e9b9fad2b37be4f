#include "server/supervisor/line_splitter.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"

namespace accel::supervisor {

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
    text.resize(CutUtf8(text, kMaxLineBytes).size());
    truncated = true;
  }
  on_line(std::move(text), truncated);
}

}  // namespace accel::supervisor
