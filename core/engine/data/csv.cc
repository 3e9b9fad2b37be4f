#include "core/engine/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

constexpr size_t kMaxValues = size_t{1} << 31;
constexpr size_t kMaxLineBytes = size_t{256} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;
// Class numbers must be exact as doubles.
constexpr double kMaxInteger = 9007199254740992.0;

// A value as part of a message.
std::string Quote(absl::string_view value) {
  constexpr size_t kMaxShown = 40;
  const bool cut = value.size() > kMaxShown;
  return absl::StrCat("\"", absl::CHexEscape(value.substr(0, kMaxShown)), cut ? "..." : "", "\"");
}

bool IsBlank(absl::string_view line) {
  return line.find_first_not_of(" \t") == absl::string_view::npos;
}

bool ParseNumber(absl::string_view text, double* value) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *value);
  if (result.ec == std::errc() && result.ptr == end) return std::isfinite(*value);
  // Spaces, a plus sign and numbers below the smallest double are rare; this knows them, but takes
  // hexadecimal ones too.
  return text.find_first_of("xX") == absl::string_view::npos && absl::SimpleAtod(text, value) &&
         std::isfinite(*value);
}

}  // namespace

class CsvReader::Parser {
 public:
  Parser(const std::string& file, const accel::v1::CsvFormat& format, bool integral_targets,
         double ignore_index)
      : file_(file),
        delimiter_(format.delimiter().empty() ? ',' : format.delimiter()[0]),
        target_column_(format.has_target_column() ? format.target_column() : -1),
        integral_targets_(integral_targets),
        ignore_index_(ignore_index),
        skip_line_(format.header()) {}

  // Parses one line without its LF.
  absl::Status AddLine(absl::string_view line) {
    ++row_;
    absl::ConsumeSuffix(&line, "\r");
    if (IsBlank(line)) return absl::OkStatus();
    if (skip_line_) {
      skip_line_ = false;
      return absl::OkStatus();
    }
    if (total_columns_ == 0) ACCEL_RETURN_IF_ERROR(SetColumns(line));
    return AddRow(line);
  }

  int64_t rows() const { return static_cast<int64_t>(table_.targets.size()); }

  // The rows since the last call.
  CsvTable Take() {
    CsvTable table = std::exchange(table_, {});
    table.columns = total_columns_ - 1;
    return table;
  }

 private:
  absl::Status SetColumns(absl::string_view line) {
    total_columns_ = 1;
    for (const char c : line) total_columns_ += c == delimiter_;
    const int64_t target = target_column_ < 0 ? total_columns_ + target_column_ : target_column_;
    if (target < 0 || target >= total_columns_) {
      return MalformedData(file_, absl::StrCat("has ", total_columns_,
                                               " columns, csv.target_column is ", target_column_));
    }
    if (total_columns_ == 1) return MalformedData(file_, "has one column, so no features");
    target_ = target;
    return absl::OkStatus();
  }

  absl::Status AddRow(absl::string_view line) {
    int64_t column = 0;
    for (bool more = true; more; ++column) {
      const size_t end = line.find(delimiter_);
      more = end != absl::string_view::npos;
      if (column < total_columns_) {
        ACCEL_RETURN_IF_ERROR(AddValue(column, line.substr(0, end)));
      }
      if (more) line.remove_prefix(end + 1);
    }
    if (column != total_columns_) {
      return MalformedValue(
          file_, row_, std::min(column, total_columns_) + 1,
          absl::StrCat("the row has ", column, " columns, the first one ", total_columns_));
    }
    if (table_.features.size() + table_.targets.size() > kMaxValues) {
      return absl::ResourceExhaustedError(
          absl::StrCat(file_, ": has more than ", kMaxValues, " values"));
    }
    return absl::OkStatus();
  }

  absl::Status AddValue(int64_t column, absl::string_view text) {
    double value = 0;
    if (!ParseNumber(text, &value)) {
      const bool quoted = text.find('"') != absl::string_view::npos;
      return MalformedValue(file_, row_, column + 1,
                            absl::StrCat(Quote(text), quoted ? " is quoted, which is not supported"
                                                             : " is no finite number"));
    }
    if (column == target_) return AddTarget(column, text, value);
    const float single = static_cast<float>(value);
    if (!std::isfinite(single)) {
      return MalformedValue(file_, row_, column + 1,
                            absl::StrCat(Quote(text), " is outside the range of fp32"));
    }
    table_.features.push_back(single);
    return absl::OkStatus();
  }

  absl::Status AddTarget(int64_t column, absl::string_view text, double value) {
    const bool integral = value >= 0 && value <= kMaxInteger && value == std::floor(value);
    if (integral_targets_ && !integral && value != ignore_index_) {
      return MalformedValue(file_, row_, column + 1,
                            absl::StrCat("target ", Quote(text), " is no class number"));
    }
    table_.targets.push_back(value);
    return absl::OkStatus();
  }

  const std::string file_;
  const char delimiter_;
  const int64_t target_column_;
  const bool integral_targets_;
  const double ignore_index_;
  bool skip_line_;
  int64_t row_ = 0;
  int64_t total_columns_ = 0;
  int64_t target_ = 0;
  CsvTable table_;
};

CsvReader::CsvReader(ByteSource& source, const accel::v1::CsvFormat& format, bool integral_targets,
                     double ignore_index)
    : source_(source),
      parser_(std::make_unique<Parser>(source.name(), format, integral_targets, ignore_index)) {}

CsvReader::~CsvReader() = default;

absl::StatusOr<CsvTable> CsvReader::Read(int64_t max_rows) {
  while (parser_->rows() < max_rows) {
    const size_t end = buffer_.find('\n', searched_);
    if (end != std::string::npos) {
      const auto line = absl::string_view(buffer_).substr(begin_, end - begin_);
      ACCEL_RETURN_IF_ERROR(parser_->AddLine(line));
      begin_ = searched_ = end + 1;
      continue;
    }
    if (ended_) {
      const auto line = absl::string_view(buffer_).substr(std::exchange(begin_, buffer_.size()));
      searched_ = buffer_.size();
      if (line.empty()) break;
      ACCEL_RETURN_IF_ERROR(parser_->AddLine(line));
      continue;
    }
    ACCEL_RETURN_IF_ERROR(Fill());
  }
  return parser_->Take();
}

absl::Status CsvReader::Fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  searched_ = buffer_.size();
  if (searched_ > kMaxLineBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(source_.name(), ": has a line of more than ", kMaxLineBytes, " bytes"));
  }
  buffer_.resize(searched_ + kReadBytes);
  ACCEL_ASSIGN_OR_RETURN(const size_t count, source_.Read(&buffer_[searched_], kReadBytes));
  buffer_.resize(searched_ + count);
  ended_ = count < kReadBytes;
  return absl::OkStatus();
}

absl::StatusOr<CsvTable> ReadCsv(ByteSource& source, const accel::v1::CsvFormat& format,
                                 bool integral_targets, double ignore_index) {
  CsvReader reader(source, format, integral_targets, ignore_index);
  ACCEL_ASSIGN_OR_RETURN(CsvTable table, reader.Read(std::numeric_limits<int64_t>::max()));
  if (table.targets.empty()) return MalformedData(source.name(), "has no rows");
  return table;
}

}  // namespace accel::engine
