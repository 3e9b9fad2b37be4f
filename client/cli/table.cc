#include "client/cli/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/human.h"

namespace accel::cli {

std::string Colored(const std::string& text, Color color, bool enabled) {
  if (!enabled || color == Color::kNone) return text;
  const char* code = color == Color::kRed      ? "31"
                     : color == Color::kGreen  ? "32"
                     : color == Color::kYellow ? "33"
                                               : "1";
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

void Table::Print(std::ostream& out, bool color) const {
  std::vector<std::vector<Cell>> lines;
  if (!header_.empty()) {
    std::vector<Cell>& line = lines.emplace_back();
    for (const std::string& name : header_) line.emplace_back(name, Color::kBold);
  }
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<int> widths;
  for (std::vector<Cell>& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) {
      line[i].text = line[i].text.empty() ? "-" : EscapeControls(line[i].text);
      widths[i] = std::max(widths[i], DisplayWidth(line[i].text));
    }
  }
  for (const std::vector<Cell>& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      out << Colored(line[i].text, line[i].color, color);
      if (i + 1 == line.size()) break;
      out << std::string(static_cast<size_t>(widths[i] - DisplayWidth(line[i].text) + 2), ' ');
    }
    out << '\n';
  }
}

}  // namespace accel::cli
