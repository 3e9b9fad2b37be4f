#ifndef ACCEL_CORE_TRACKING_JSON_VALUES_H_
#define ACCEL_CORE_TRACKING_JSON_VALUES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// How a number that JSON does not have is written.
enum class NonFinite {
  // The bare words NaN, Infinity and -Infinity, which Python's reader takes.
  kBareWord,
  // The same words as strings.
  kString,
};

// The shortest JSON text that reads back as `number`.
std::string JsonNumber(double number, NonFinite non_finite);

// The same as a value, for NonFinite::kString.
nlohmann::json NumberOrWord(double number);

// `text` as a JSON string, bytes that are no UTF-8 replaced.
std::string JsonText(absl::string_view text);

// A value of the initial configuration; numbers that JSON does not have are strings, nothing null.
nlohmann::json ConfigJson(const ConfigValue& value);

// A value of the initial configuration as Python's str() writes it: True, None, 0.001, 1e-05.
std::string PythonText(const ConfigValue& value);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_JSON_VALUES_H_
