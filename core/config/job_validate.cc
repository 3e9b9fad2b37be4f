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

void CheckSplitBatches(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.accelerator().dataloader_config().split_batches()) return;
  const int world_size = NumProcesses(spec);
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

void CheckBatchSizeSearch(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.loop().has_find_executable_batch_size()) return;
  if (spec.accelerator().dataloader_config().split_batches()) {
    violations->Add("loop.find_executable_batch_size",
                    "not allowed with split_batches: a reduced size is no multiple of the ranks");
  }
  if (spec.has_resume_from()) {
    violations->Add("loop.find_executable_batch_size",
                    "not allowed with resume_from: a checkpoint's place in the data counts batches "
                    "of one size");
  }
}

void CheckMemoryLimit(const JobSpec& spec, FieldViolations* violations) {
  if (spec.has_memory_limit_bytes() && spec.device() == "cuda") {
    violations->Add("memory_limit_bytes",
                    "not allowed on a CUDA device, whose driver maps memory of its own");
  }
}

}  // namespace

int NumProcesses(const JobSpec& spec) {
  return spec.has_num_processes() ? spec.num_processes() : 1;
}

int NumMachines(const JobSpec& spec) {
  return spec.multi_node().has_num_machines() ? spec.multi_node().num_machines() : 1;
}

int ProcessesPerMachine(const JobSpec& spec) { return NumProcesses(spec) / NumMachines(spec); }

bool IsMachineMember(const JobSpec& spec) {
  return NumMachines(spec) > 1 && spec.multi_node().machine_rank() > 0;
}

std::vector<std::string> JobWarnings(const JobSpec& spec) {
  std::vector<std::string> warnings;
  if (spec.accelerator().project_config().save_on_each_node() && NumMachines(spec) == 1) {
    warnings.push_back(
        "accelerator.project_config.save_on_each_node: no effect: the job runs on one machine");
  }
  return warnings;
}

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
  CheckAcceleratorImplemented(spec.accelerator(), "accelerator", violations);

  CheckLabels(spec, violations);
  CheckMachines(spec, limits, violations);
  CheckSplitBatches(spec, violations);
  CheckBatchSizeSearch(spec, violations);
  CheckMemoryLimit(spec, violations);
  CheckModel(spec.model(), "model", violations);
  CheckInitFrom(spec.model(), limits, "model", violations);
  CheckData(spec.data(), limits, "data", violations);
  CheckLoading(spec, violations);
  CheckTask(spec, violations);
  CheckTraining(spec, violations);
  CheckLoop(spec, violations);
  CheckOptimizer(spec, violations);
  CheckTracking(spec.tracking(), "tracking", violations);
  if (spec.has_resume_from() && !IsCheckpointName(spec.resume_from())) {
    violations->Add("resume_from",
                    NotAllowed(Quoted(spec.resume_from()), "jobs/{job}/checkpoints/{checkpoint}"));
  }
}

}  // namespace accel::config
