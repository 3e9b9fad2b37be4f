#ifndef ACCEL_CLIENT_CLI_TABLE_H_
#define ACCEL_CLIENT_CLI_TABLE_H_

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace accel::cli {

// Terminal colours.
enum class Color { kNone, kRed, kGreen, kYellow, kBold };

// `text` in `color`, when `enabled`.
std::string Colored(const std::string& text, Color color, bool enabled);

// Aligned columns, two blanks apart, without blanks at a line's end.
class Table {
 public:
  // One value. Control characters are escaped; an empty one is shown as "-".
  struct Cell {
    Cell(std::string text, Color color = Color::kNone) : text(std::move(text)), color(color) {}
    Cell(const char* text) : text(text), color(Color::kNone) {}
    std::string text;
    Color color;
  };

  // No header: a list of names and values.
  explicit Table(std::vector<std::string> header = {}) : header_(std::move(header)) {}

  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  void Print(std::ostream& out, bool color) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_TABLE_H_
