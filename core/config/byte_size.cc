#include "core/config/byte_size.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace accel::config {

std::optional<int64_t> ParseByteSize(absl::string_view text) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40},
      {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
  };
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  absl::string_view number = lower;
  double factor = 1;
  for (const auto& [unit, bytes] : kUnits) {
    if (absl::ConsumeSuffix(&number, unit)) {
      factor = bytes;
      break;
    }
  }
  number = absl::StripAsciiWhitespace(number);
  const bool plain = factor == 1;
  const absl::string_view allowed = plain ? "0123456789" : "0123456789.";
  double value = 0;
  if (number.empty() || number.find_first_not_of(allowed) != absl::string_view::npos ||
      !absl::SimpleAtod(number, &value)) {
    return std::nullopt;
  }
  const double bytes = value * factor;
  if (!(bytes >= 1 && bytes <= 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

}  // namespace accel::config
