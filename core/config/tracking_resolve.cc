#include "core/config/tracking_resolve.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/flag_text.h"
#include "core/config/field_rules.h"
#include "nlohmann/json.hpp"

namespace accel::config {
namespace {

using accel::v1::TrackerSpec;
using accel::v1::TrackingSpec;

// In Accelerate's order of "all".
constexpr absl::string_view kBuiltIn[] = {"tensorboard", "wandb",   "comet_ml", "aim",    "mlflow",
                                          "clearml",     "dvclive", "swanlab",  "trackio"};

bool IsBuiltIn(absl::string_view name) {
  return std::find(std::begin(kBuiltIn), std::end(kBuiltIn), name) != std::end(kBuiltIn);
}

TrackerSpec SpecOf(absl::string_view name) {
  TrackerSpec spec;
  const auto* const field = TrackerSpec::descriptor()->FindFieldByName(std::string(name));
  spec.GetReflection()->MutableMessage(&spec, field);
  return spec;
}

std::string NameOf(const TrackerSpec& spec) {
  if (spec.has_custom()) return spec.custom().name();
  return TrackerSpec::descriptor()->FindFieldByNumber(spec.tracker_case())->name();
}

std::string Setting(const TrackerNode& node, const std::string& option, const char* variable) {
  if (!option.empty()) return option;
  const auto found = node.environment.find(variable);
  return found == node.environment.end() ? "" : found->second;
}

std::string MissingSecret(const TrackerNode& node, const std::string& option, const char* name) {
  const std::string secret = option.empty() ? name : option;
  if (node.secret_names.count(secret) > 0) return "";
  return absl::StrCat("the node has no secret ", secret);
}

bool IsHttp(const std::string& url) {
  return absl::StartsWith(url, "http://") || absl::StartsWith(url, "https://");
}

// Why the node cannot serve the tracker; empty when it can.
std::string WhyUnavailable(const TrackerSpec& spec, const TrackerNode& node) {
  switch (spec.tracker_case()) {
    case TrackerSpec::kWandb: {
      const std::string mode = Setting(node, spec.wandb().mode(), "WANDB_MODE");
      if (mode == "offline" || mode == "dryrun" || mode == "disabled") return "";
      return MissingSecret(node, spec.wandb().api_key_secret(), "WANDB_API_KEY");
    }
    case TrackerSpec::kMlflow: {
      if (!IsHttp(Setting(node, spec.mlflow().tracking_uri(), "MLFLOW_TRACKING_URI"))) {
        return "it needs the http or https address of a tracking server in tracking_uri or in the "
               "node's MLFLOW_TRACKING_URI";
      }
      const std::string nested = Setting(node, "", "MLFLOW_NESTED_RUN");
      if (FlagOr(nested, false) && spec.mlflow().parent_run_id().empty()) {
        return "the node's MLFLOW_NESTED_RUN makes every run a child: it needs nested_run and "
               "parent_run_id";
      }
      if (Setting(node, spec.mlflow().username(), "MLFLOW_TRACKING_USERNAME").empty()) return "";
      return MissingSecret(node, spec.mlflow().password_secret(), "MLFLOW_TRACKING_PASSWORD");
    }
    case TrackerSpec::kCometMl: {
      const accel::v1::CometMLTracker& comet = spec.comet_ml();
      const bool online = comet.has_online()
                              ? comet.online()
                              : FlagOr(Setting(node, "", "COMET_START_ONLINE"), true);
      return online ? MissingSecret(node, comet.api_key_secret(), "COMET_API_KEY") : "";
    }
    case TrackerSpec::kClearml: {
      const accel::v1::ClearMLTracker& clearml = spec.clearml();
      const bool offline = clearml.has_offline()
                               ? clearml.offline()
                               : FlagOr(Setting(node, "", "CLEARML_OFFLINE_MODE"), false);
      const bool has_pair = clearml.api_keys_secret().empty() &&
                            node.secret_names.count("CLEARML_API_ACCESS_KEY") > 0 &&
                            node.secret_names.count("CLEARML_API_SECRET_KEY") > 0;
      if (offline || has_pair) return "";
      return MissingSecret(node, clearml.api_keys_secret(), "CLEARML_API_KEYS");
    }
    case TrackerSpec::kSwanlab: {
      const std::string mode = Setting(node, spec.swanlab().mode(), "SWANLAB_MODE");
      if (mode == "offline" || mode == "disabled") return "";
      return MissingSecret(node, spec.swanlab().api_key_secret(), "SWANLAB_API_KEY");
    }
    case TrackerSpec::kAim:
      if (!Setting(node, spec.aim().repo(), "AIM_REPO").empty()) return "";
      return "it needs the address of an aim server, aim://host:port, in repo or in the node's "
             "AIM_REPO";
    case TrackerSpec::kCustom:
      if (node.custom.count(spec.custom().name()) > 0) return "";
      return absl::StrCat("no tracker \"", spec.custom().name(), "\" is registered on this node");
    default:
      return "";
  }
}

// A secret of the node goes only where the operator lets it go: a job could name any address.
void CheckAddress(const std::string& url, const char* variable, absl::string_view standard,
                  const std::string& secret, const std::string& path, const TrackerNode& node,
                  FieldViolations* violations) {
  if (url.empty()) return;
  if (!IsHttp(url)) {
    violations->Add(path, NotAllowed(Quoted(url), "addresses that start with http:// or https://"));
    return;
  }
  const std::string bare(absl::StripSuffix(url, "/"));
  const std::string own(absl::StripSuffix(Setting(node, "", variable), "/"));
  if (node.secret_names.count(secret) == 0 || bare == own || bare == standard) return;
  if (node.urls.count(bare) > 0) return;
  violations->Add(
      path, absl::StrCat(Quoted(url), " is not allowed: the node does not send its secret ", secret,
                         " there (acceld --tracker_url)"));
}

std::string Or(const std::string& option, const char* standard) {
  return option.empty() ? standard : option;
}

void CheckAddresses(const TrackerSpec& spec, const std::string& path, const TrackerNode& node,
                    FieldViolations* violations) {
  const accel::v1::WandBTracker& wandb = spec.wandb();
  CheckAddress(wandb.base_url(), "WANDB_BASE_URL", "https://api.wandb.ai",
               Or(wandb.api_key_secret(), "WANDB_API_KEY"), FieldPath(path, "wandb.base_url"), node,
               violations);
  const accel::v1::MLflowTracker& mlflow = spec.mlflow();
  const bool basic = !Setting(node, mlflow.username(), "MLFLOW_TRACKING_USERNAME").empty();
  CheckAddress(mlflow.tracking_uri(), "MLFLOW_TRACKING_URI", "",
               basic ? Or(mlflow.password_secret(), "MLFLOW_TRACKING_PASSWORD")
                     : Or(mlflow.token_secret(), "MLFLOW_TRACKING_TOKEN"),
               FieldPath(path, "mlflow.tracking_uri"), node, violations);
  const accel::v1::TrackioTracker& trackio = spec.trackio();
  CheckAddress(trackio.server_url(), "TRACKIO_SERVER_URL", "",
               Or(trackio.write_token_secret(), "TRACKIO_WRITE_TOKEN"),
               FieldPath(path, "trackio.server_url"), node, violations);
  const accel::v1::CometMLTracker& comet = spec.comet_ml();
  CheckAddress(comet.base_url(), "COMET_URL_OVERRIDE", "https://www.comet.com/clientlib",
               Or(comet.api_key_secret(), "COMET_API_KEY"), FieldPath(path, "comet_ml.base_url"),
               node, violations);
  const accel::v1::ClearMLTracker& clearml = spec.clearml();
  const bool has_keys = node.secret_names.count(Or(clearml.api_keys_secret(), "CLEARML_API_KEYS"));
  CheckAddress(
      clearml.api_host(), "CLEARML_API_HOST", "https://api.clear.ml",
      has_keys ? Or(clearml.api_keys_secret(), "CLEARML_API_KEYS") : "CLEARML_API_SECRET_KEY",
      FieldPath(path, "clearml.api_host"), node, violations);
  const accel::v1::SwanLabTracker& swanlab = spec.swanlab();
  CheckAddress(swanlab.api_host(), "SWANLAB_API_HOST", "https://api.swanlab.cn",
               Or(swanlab.api_key_secret(), "SWANLAB_API_KEY"), FieldPath(path, "swanlab.api_host"),
               node, violations);
}

class Resolver {
 public:
  Resolver(const TrackerNode& node, std::string path, FieldViolations* violations)
      : node_(node), path_(std::move(path)), violations_(violations) {}

  void AddGiven(const TrackerSpec& spec, int index) {
    const std::string path = absl::StrCat(FieldPath(path_, "trackers"), "[", index, "]");
    const std::string field =
        FieldPath(path, TrackerSpec::descriptor()->FindFieldByNumber(spec.tracker_case())->name());
    CheckAddresses(spec, path, node_, violations_);
    if (const std::string why = WhyUnavailable(spec, node_); !why.empty()) {
      violations_->Add(field, absl::StrCat("is not available: ", why));
    }
    Add(spec);
  }

  void AddNamed(const std::string& name, const std::string& field) {
    TrackerSpec spec;
    if (IsBuiltIn(name)) {
      spec = SpecOf(name);
    } else if (node_.custom.count(name) > 0) {
      spec.mutable_custom()->set_name(name);
    } else {
      std::vector<std::string> known(std::begin(kBuiltIn), std::end(kBuiltIn));
      known.insert(known.begin(), "all");
      known.insert(known.end(), node_.custom.begin(), node_.custom.end());
      violations_->Add(field, NotAllowed(Quoted(name), absl::StrJoin(known, ", ")));
      return;
    }
    const std::string why = WhyUnavailable(spec, node_);
    if (why.empty()) return Add(spec);
    result_.warnings.push_back(absl::StrCat(field, ": ", name, " is left out: ", why));
  }

  void AddAll(const std::string& field) {
    for (const absl::string_view name : kBuiltIn) AddNamed(std::string(name), field);
  }

  ResolvedTracking Take() { return std::move(result_); }
  TrackingSpec* tracking() { return &result_.tracking; }

 private:
  // The first one of a name counts: the one with options.
  void Add(const TrackerSpec& spec) {
    if (names_.insert(NameOf(spec)).second) *result_.tracking.add_trackers() = spec;
  }

  const TrackerNode& node_;
  const std::string path_;
  FieldViolations* const violations_;
  std::set<std::string> names_;
  ResolvedTracking result_;
};

}  // namespace

ResolvedTracking ResolveTracking(const TrackingSpec& tracking, const TrackerNode& node,
                                 const std::string& path, FieldViolations* violations) {
  Resolver resolver(node, path, violations);
  *resolver.tracking() = tracking;
  resolver.tracking()->clear_trackers();
  resolver.tracking()->clear_log_with();
  for (int i = 0; i < tracking.trackers_size(); ++i) {
    if (tracking.trackers(i).tracker_case() == TrackerSpec::TRACKER_NOT_SET) continue;
    resolver.AddGiven(tracking.trackers(i), i);
  }
  for (int i = 0; i < tracking.log_with_size(); ++i) {
    const std::string field = absl::StrCat(FieldPath(path, "log_with"), "[", i, "]");
    if (tracking.log_with(i) == "all") {
      resolver.AddAll(field);
    } else {
      resolver.AddNamed(tracking.log_with(i), field);
    }
  }
  ResolvedTracking resolved = resolver.Take();
  const bool asked = tracking.trackers_size() + tracking.log_with_size() > 0;
  if (asked && resolved.tracking.trackers().empty()) {
    resolved.warnings.push_back(absl::StrCat(path, ": no tracker is left, nothing is sent to any"));
  }
  return resolved;
}

absl::Status CheckCustomTrackerName(const std::string& name) {
  constexpr size_t kMaxName = 64;
  const bool good =
      !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-';
      });
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name ", Quoted(name),
                     " is not allowed; allowed: 1 to 64 letters, digits, \"_\" and \"-\""));
  }
  const std::string base(absl::StripSuffix(name, "_archive"));
  if (base == "all" || IsBuiltIn(base)) {
    return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(name), " is taken"));
  }
  return absl::OkStatus();
}

const std::set<std::string>& TrackerVariables() {
  static const auto* const variables = new std::set<std::string>{"AIM_REPO",
                                                                 "CLEARML_API_HOST",
                                                                 "CLEARML_OFFLINE_MODE",
                                                                 "CLEARML_PROJECT",
                                                                 "CLEARML_TASK",
                                                                 "COMET_START_EXPERIMENT_NAME",
                                                                 "COMET_START_EXPERIMENT_TAGS",
                                                                 "COMET_START_MODE",
                                                                 "COMET_START_ONLINE",
                                                                 "COMET_URL_OVERRIDE",
                                                                 "COMET_WORKSPACE",
                                                                 "MLFLOW_EXPERIMENT_NAME",
                                                                 "MLFLOW_NESTED_RUN",
                                                                 "MLFLOW_RUN_ID",
                                                                 "MLFLOW_TAGS",
                                                                 "MLFLOW_TRACKING_URI",
                                                                 "MLFLOW_TRACKING_USERNAME",
                                                                 "MLFLOW_WORKSPACE",
                                                                 "SWANLAB_API_HOST",
                                                                 "SWANLAB_EXP_NAME",
                                                                 "SWANLAB_MODE",
                                                                 "SWANLAB_WORKSPACE",
                                                                 "TRACKIO_SERVER_URL",
                                                                 "WANDB_BASE_URL",
                                                                 "WANDB_ENTITY",
                                                                 "WANDB_JOB_TYPE",
                                                                 "WANDB_MODE",
                                                                 "WANDB_NAME",
                                                                 "WANDB_NOTES",
                                                                 "WANDB_RUN_GROUP",
                                                                 "WANDB_TAGS"};
  return *variables;
}

absl::Status CheckTrackerVariable(const std::string& name, const std::string& value) {
  const std::set<std::string>& known = TrackerVariables();
  if (known.count(name) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be one of ", absl::StrJoin(known, ", "),
                     "; keys and passwords belong into --secrets_file"));
  }
  const auto wrong = [&value](absl::string_view allowed) {
    return absl::InvalidArgumentError(NotAllowed(Quoted(value), allowed));
  };
  static const auto* const modes =
      new std::set<std::string>{"online", "run", "offline", "dryrun", "disabled"};
  if (name == "WANDB_MODE" && modes->count(value) == 0) return wrong("online, offline, disabled");
  const bool is_flag =
      name == "MLFLOW_NESTED_RUN" || name == "CLEARML_OFFLINE_MODE" || name == "COMET_START_ONLINE";
  bool flag = false;
  if (is_flag && !absl::SimpleAtob(value, &flag)) return wrong("true, false");
  if (name == "MLFLOW_TAGS" && !nlohmann::json::parse(value, nullptr, false).is_object()) {
    return wrong("a JSON object");
  }
  if (absl::EndsWith(name, "_URL") || absl::EndsWith(name, "_URI")) {
    if (!IsHttp(value)) return wrong("addresses that start with http:// or https://");
  }
  return absl::OkStatus();
}

}  // namespace accel::config
