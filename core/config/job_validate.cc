#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/config/accelerator.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"
#include "core/config/job_spec.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;

constexpr size_t kMaxLabelKey = 63;
constexpr size_t kMaxLabelValue = 255;
constexpr size_t kMaxId = 63;

bool IsLabelKey(absl::string_view key) {
  if (key.empty() || key.size() > kMaxLabelKey) return false;
  for (char c : key) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains("_-./", absl::string_view(&c, 1))) {
      return false;
    }
  }
  return true;
}

void CheckLabels(const JobSpec& spec, FieldViolations* violations) {
  for (const auto& [key, value] : spec.labels()) {
    const std::string path = absl::StrCat("labels[", Quoted(key), "]");
    if (!IsLabelKey(key)) {
      violations->Add(
          path, NotAllowed("this key", "1 to 63 letters, digits, \"_\", \"-\", \".\" and \"/\""));
    }
    if (value.size() > kMaxLabelValue) {
      violations->Add(path, NotAllowed(absl::StrCat(value.size(), " bytes"),
                                       absl::StrCat("at most ", kMaxLabelValue)));
    }
  }
}

void CheckRanks(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  const int world_size = spec.has_num_processes() ? spec.num_processes() : 1;
  if (world_size < 1 || world_size > limits.max_world_size) {
    violations->Add("num_processes", NotAllowed(absl::StrCat(world_size),
                                                absl::StrCat("1 to ", limits.max_world_size,
                                                             ", this node's limit")));
  }
  if (spec.device() != "cuda") return;
  if (limits.cuda_devices == 0) {
    violations->Add("device", "\"cuda\" is not allowed: this node has no CUDA device");
  } else if (world_size > limits.cuda_devices) {
    violations->Add("num_processes",
                    NotAllowed(absl::StrCat(world_size),
                               absl::StrCat("at most ", limits.cuda_devices,
                                            ", one rank for each CUDA device of this node")));
  }
}

void CheckSplitBatches(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.accelerator().dataloader_config().split_batches()) return;
  const int world_size = spec.has_num_processes() ? spec.num_processes() : 1;
  const auto check = [&](int batch_size, absl::string_view path) {
    if (world_size > 0 && batch_size > 0 && batch_size % world_size != 0) {
      violations->Add(
          path, NotAllowed(absl::StrCat(batch_size), absl::StrCat("multiples of the ", world_size,
                                                                  " ranks that split a batch")));
    }
  };
  check(spec.data().batch_size(), "data.batch_size");
  check(spec.data().evaluation_batch_size(), "data.evaluation_batch_size");
}

// `jobs/{job}/checkpoints/{checkpoint}`.
bool IsCheckpointName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() != 4 || parts[0] != "jobs" || parts[2] != "checkpoints") return false;
  if (!IsValidJobId(parts[1]) || parts[3].empty() || parts[3].size() > kMaxId) return false;
  for (char c : parts[3]) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
  }
  return true;
}

}  // namespace

bool IsValidJobId(absl::string_view id) {
  if (id.empty() || id.size() > kMaxId) return false;
  for (char c : id) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '-') return false;
  }
  return absl::ascii_islower(id.front()) && id.back() != '-';
}

void ValidateJobSpec(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  // The accelerator's fields are checked with its own rules below.
  JobSpec others = spec;
  others.clear_accelerator();
  CheckFields(others, "", violations);
  const std::string device = spec.has_device() ? spec.device() : "cpu";
  ValidateAccelerator(spec.accelerator(), device, "accelerator", violations);
  CheckAcceleratorImplemented(spec.accelerator(), device, "accelerator", violations);

  CheckLabels(spec, violations);
  CheckRanks(spec, limits, violations);
  CheckSplitBatches(spec, violations);
  CheckModel(spec.model(), "model", violations);
  CheckData(spec.data(), limits, "data", violations);
  CheckTask(spec, violations);
  CheckTraining(spec, violations);
  CheckLoop(spec, violations);
  CheckTracking(spec.tracking(), "tracking", violations);
  if (spec.has_resume_from() && !IsCheckpointName(spec.resume_from())) {
    violations->Add("resume_from",
                    NotAllowed(Quoted(spec.resume_from()), "jobs/{job}/checkpoints/{checkpoint}"));
  }
}

}  // namespace accel::config
