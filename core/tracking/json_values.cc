#include "core/tracking/json_values.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"

namespace accel::tracking {
namespace {

absl::string_view Word(double number) {
  if (std::isnan(number)) return "NaN";
  return number > 0 ? "Infinity" : "-Infinity";
}

// As Python's repr(): positional between 1e-4 and 1e16, with ".0" where there is no fraction.
std::string PythonFloat(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const double magnitude = std::abs(number);
  const bool positional = number == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number,
                    positional ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (positional && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string JsonNumber(double number, NonFinite non_finite) {
  if (std::isfinite(number)) return nlohmann::json(number).dump();
  const absl::string_view word = Word(number);
  return non_finite == NonFinite::kBareWord ? std::string(word) : absl::StrCat("\"", word, "\"");
}

nlohmann::json NumberOrWord(double number) {
  if (std::isfinite(number)) return number;
  return std::string(Word(number));
}

std::string JsonText(absl::string_view text) { return nlohmann::json(RepairUtf8(text)).dump(); }

nlohmann::json ConfigJson(const ConfigValue& value) {
  return std::visit(
      [](const auto& v) -> nlohmann::json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, double>) {
          return NumberOrWord(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return RepairUtf8(v);
        } else {
          return v;
        }
      },
      value);
}

std::string PythonText(const ConfigValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "None";
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "True" : "False";
        } else if constexpr (std::is_same_v<T, double>) {
          return PythonFloat(v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return RepairUtf8(v);
        } else {
          return absl::StrCat(v);
        }
      },
      value);
}

}  // namespace accel::tracking
