#ifndef ACCEL_CORE_TRACKING_TRACKER_SETTINGS_H_
#define ACCEL_CORE_TRACKING_TRACKER_SETTINGS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::tracking {

// What the node says to trackers: its settings under the names of the trackers' own environment
// variables, and its secrets. The process's own environment is never read.
class TrackerSettings {
 public:
  TrackerSettings() = default;
  TrackerSettings(std::map<std::string, std::string> variables,
                  std::map<std::string, std::string> secrets)
      : variables_(std::move(variables)), secrets_(std::move(secrets)) {}

  // `option` unless it is empty, else the variable, else `fallback`.
  std::string Choose(absl::string_view option, absl::string_view variable,
                     absl::string_view fallback = "") const;
  // The variable unless it is empty, else `option`: where the original lets the environment win.
  std::string ChooseVariable(absl::string_view variable, absl::string_view option) const;

  // Empty for a secret that the node does not have.
  std::string Secret(absl::string_view name) const;
  // FAILED_PRECONDITION, permanent, naming the secret, where the node does not have it.
  absl::StatusOr<std::string> RequireSecret(absl::string_view name) const;

  // `text` without the values of secrets.
  std::string Redact(absl::string_view text) const;

 private:
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::string> secrets_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TRACKER_SETTINGS_H_
