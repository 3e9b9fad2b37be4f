#include <algorithm>
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
constexpr size_t kMaxRunId = 64;

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

bool IsRunId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRunId && std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-';
  });
}

// 24 lower-case hexadecimal digits.
bool IsAimHash(absl::string_view hash) {
  return hash.size() == 24 && std::all_of(hash.begin(), hash.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

bool IsAimRepo(absl::string_view repo) {
  return absl::StartsWith(repo, "aim://") || absl::StartsWith(repo, "http://") ||
         absl::StartsWith(repo, "https://");
}

// The name of the member that is set, as it stands in a job file.
std::string KindOf(const TrackerSpec& tracker) {
  return TrackerSpec::descriptor()->FindFieldByNumber(tracker.tracker_case())->name();
}

void CheckComet(const accel::v1::CometMLTracker& comet, const std::string& path,
                FieldViolations* violations) {
  if (comet.has_experiment_key() && !IsCometKey(comet.experiment_key())) {
    violations->Add(FieldPath(path, "experiment_key"),
                    NotAllowed(Quoted(comet.experiment_key()), "32 to 50 letters and digits"));
  }
  if (comet.start_mode() == "get" && !comet.has_experiment_key()) {
    violations->Add(FieldPath(path, "experiment_key"),
                    "is required with start_mode \"get\": it says which experiment goes on");
  }
}

void CheckAim(const accel::v1::AimTracker& aim, const std::string& path,
              FieldViolations* violations) {
  if (aim.has_run_hash() && !IsAimHash(aim.run_hash())) {
    violations->Add(FieldPath(path, "run_hash"),
                    NotAllowed(Quoted(aim.run_hash()), "24 lower-case hexadecimal digits"));
  }
  if (aim.has_repo() && !IsAimRepo(aim.repo())) {
    violations->Add(
        FieldPath(path, "repo"),
        NotAllowed(Quoted(aim.repo()), "addresses that start with aim://, http:// or https://"));
  }
}

void CheckTracker(const TrackerSpec& tracker, const std::string& path,
                  FieldViolations* violations) {
  const std::string& suffix = tracker.tensorboard().filename_suffix();
  if (absl::StrContains(suffix, '/') || absl::StrContains(suffix, '\0')) {
    violations->Add(FieldPath(path, "tensorboard.filename_suffix"),
                    NotAllowed(Quoted(suffix), "texts without \"/\" and NUL bytes"));
  }
  const std::string& id = tracker.wandb().id();
  if (tracker.wandb().has_id() && !IsRunId(id)) {
    violations->Add(FieldPath(path, "wandb.id"),
                    NotAllowed(Quoted(id), "1 to 64 letters, digits, \"_\" and \"-\""));
  }
  const accel::v1::MLflowTracker& mlflow = tracker.mlflow();
  if (mlflow.nested_run() != !mlflow.parent_run_id().empty()) {
    violations->Add(FieldPath(path, "mlflow.parent_run_id"),
                    "nested_run and parent_run_id go together: give both or neither");
  }
  if (mlflow.nested_run() && mlflow.has_run_id()) {
    violations->Add(FieldPath(path, "mlflow.run_id"),
                    "a run that exists keeps its parent: not allowed with nested_run");
  }
  if (tracker.trackio().has_server_url() && tracker.trackio().has_storage()) {
    violations->Add(FieldPath(path, "trackio.storage"),
                    "has no effect with server_url: give one of them");
  }
  CheckComet(tracker.comet_ml(), FieldPath(path, "comet_ml"), violations);
  CheckAim(tracker.aim(), FieldPath(path, "aim"), violations);
  const accel::v1::SwanLabTracker& swanlab = tracker.swanlab();
  if (swanlab.has_id() && !IsRunId(swanlab.id())) {
    violations->Add(FieldPath(path, "swanlab.id"),
                    NotAllowed(Quoted(swanlab.id()), "1 to 64 letters, digits, \"_\" and \"-\""));
  }
  // One name, so that it cannot leave the tracker's folder.
  const accel::v1::DVCLiveTracker& dvclive = tracker.dvclive();
  if (dvclive.has_dir() && !IsProject(dvclive.dir())) {
    violations->Add(FieldPath(path, "dvclive.dir"),
                    NotAllowed(Quoted(dvclive.dir()),
                               "letters, digits, \"_\", \"-\" and \".\", not \".\" at the start"));
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
    // Custom trackers are told apart by their names.
    const std::string kind =
        tracker.has_custom() ? absl::StrCat("custom ", tracker.custom().name()) : KindOf(tracker);
    if (!kinds.insert(kind).second) {
      violations->Add(FieldPath(tracker_path, KindOf(tracker)),
                      "a tracker of this kind is given already; allowed: one of each kind");
    }
  }
}

}  // namespace accel::config
