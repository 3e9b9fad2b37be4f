#include "core/tracking/tracker_settings.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking {
namespace {

// A shorter text would be found inside of ordinary words.
constexpr size_t kShortestRedacted = 4;

std::string ValueOf(const std::map<std::string, std::string>& map, absl::string_view name) {
  const auto found = map.find(std::string(name));
  return found == map.end() ? "" : found->second;
}

}  // namespace

std::string TrackerSettings::Choose(absl::string_view option, absl::string_view variable,
                                    absl::string_view fallback) const {
  if (!option.empty()) return std::string(option);
  std::string value = ValueOf(variables_, variable);
  return value.empty() ? std::string(fallback) : value;
}

std::string TrackerSettings::ChooseVariable(absl::string_view variable,
                                            absl::string_view option) const {
  std::string value = ValueOf(variables_, variable);
  return value.empty() ? std::string(option) : value;
}

std::string TrackerSettings::Secret(absl::string_view name) const {
  return ValueOf(secrets_, name);
}

absl::StatusOr<std::string> TrackerSettings::RequireSecret(absl::string_view name) const {
  std::string value = Secret(name);
  if (!value.empty()) return value;
  return Permanent(
      absl::FailedPreconditionError(absl::StrCat("the node's secrets file has no secret ", name)));
}

std::string TrackerSettings::Redact(absl::string_view text) const {
  std::string redacted(text);
  for (const auto& [name, value] : secrets_) {
    if (value.size() < kShortestRedacted) continue;
    redacted = absl::StrReplaceAll(redacted, {{value, absl::StrCat("<", name, ">")}});
  }
  return redacted;
}

}  // namespace accel::tracking
