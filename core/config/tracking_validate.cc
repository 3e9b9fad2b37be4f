#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::TrackerSpec;
using accel::v1::TrackingSpec;

constexpr size_t kMinCometKey = 32;
constexpr size_t kMaxCometKey = 50;

bool IsProject(absl::string_view project) {
  if (project.empty() || project.front() == '.') return false;
  for (char c : project) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

bool IsCometKey(absl::string_view key) {
  if (key.size() < kMinCometKey || key.size() > kMaxCometKey) return false;
  for (char c : key) {
    if (!absl::ascii_isalnum(c)) return false;
  }
  return true;
}

// The name of the member that is set, as it stands in a job file.
std::string KindOf(const TrackerSpec& tracker) {
  return TrackerSpec::descriptor()->FindFieldByNumber(tracker.tracker_case())->name();
}

void CheckTracker(const TrackerSpec& tracker, const std::string& path,
                  FieldViolations* violations) {
  const std::string& suffix = tracker.tensorboard().filename_suffix();
  if (absl::StrContains(suffix, '/') || absl::StrContains(suffix, '\0')) {
    violations->Add(FieldPath(path, "tensorboard.filename_suffix"),
                    NotAllowed(Quoted(suffix), "texts without \"/\" and NUL bytes"));
  }
  if (tracker.comet_ml().has_experiment_key() && !IsCometKey(tracker.comet_ml().experiment_key())) {
    violations->Add(
        FieldPath(path, "comet_ml.experiment_key"),
        NotAllowed(Quoted(tracker.comet_ml().experiment_key()), "32 to 50 letters and digits"));
  }
  if (!tracker.has_tensorboard()) {
    violations->AddNotImplemented(FieldPath(path, KindOf(tracker)));
  }
}

}  // namespace

void CheckTracking(const TrackingSpec& tracking, absl::string_view path,
                   FieldViolations* violations) {
  if (tracking.has_project() && !IsProject(tracking.project())) {
    violations->Add(FieldPath(path, "project"),
                    NotAllowed(Quoted(tracking.project()),
                               "letters, digits, \"_\", \"-\" and \".\", not \".\" at the start"));
  }
  std::set<std::string> kinds;
  for (int i = 0; i < tracking.trackers_size(); ++i) {
    const TrackerSpec& tracker = tracking.trackers(i);
    if (tracker.tracker_case() == TrackerSpec::TRACKER_NOT_SET) continue;
    const std::string tracker_path = absl::StrCat(FieldPath(path, "trackers"), "[", i, "]");
    CheckTracker(tracker, tracker_path, violations);
    if (!kinds.insert(KindOf(tracker)).second) {
      violations->Add(FieldPath(tracker_path, KindOf(tracker)),
                      "a tracker of this kind is given already; allowed: one of each kind");
    }
  }
}

}  // namespace accel::config
