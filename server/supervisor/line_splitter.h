#ifndef ACCEL_SERVER_SUPERVISOR_LINE_SPLITTER_H_
#define ACCEL_SERVER_SUPERVISOR_LINE_SPLITTER_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace accel::supervisor {

// Cuts what a process writes into lines.
class LineSplitter {
 public:
  // Longest line in bytes of UTF-8.
  static constexpr size_t kMaxLineBytes = 16 << 10;

  // A line without its end, well-formed UTF-8; `truncated` when the rest of it was left out.
  using OnLine = absl::FunctionRef<void(std::string text, bool truncated)>;

  // Takes the next bytes; hands over each line that they end. Keeps at most kMaxLineBytes.
  void Feed(absl::string_view bytes, OnLine on_line);

  // The stream has ended: hands over a last line without an end.
  void Finish(OnLine on_line);

 private:
  void Keep(absl::string_view part);
  void EndLine(OnLine on_line);

  std::string line_;
  bool truncated_ = false;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_LINE_SPLITTER_H_
