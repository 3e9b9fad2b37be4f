#ifndef ACCEL_CORE_CONFIG_JOB_SPEC_H_
#define ACCEL_CORE_CONFIG_JOB_SPEC_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/job.pb.h"
#include "core/base/errors.h"

namespace accel::config {

// What a node allows.
struct NodeLimits {
  // Most ranks of one job.
  int max_world_size = 0;
  // Whether the node has CUDA devices.
  int cuda_devices = 0;
  // Folders in which data files may lie, by name.
  std::map<std::string, std::filesystem::path> data_roots;
  // Networks, `<ip>/<bits>`, in which the rendezvous of a job may lie beside loopback.
  std::vector<std::string> rendezvous_networks;
};

// Ranks of a job over all its machines, machines, and ranks of each machine, with their defaults.
// Valid for a valid job only.
int NumProcesses(const accel::v1::JobSpec& spec);
int NumMachines(const accel::v1::JobSpec& spec);
int ProcessesPerMachine(const accel::v1::JobSpec& spec);
// Whether this node has the job's part of a machine other than 0, which keeps no metrics.
bool IsMachineMember(const accel::v1::JobSpec& spec);

// Options that are accepted and have no effect in this job, beside those that are so in any job
// with its accelerator; each with its path and reason.
std::vector<std::string> JobWarnings(const accel::v1::JobSpec& spec);

// Adds everything that is wrong with a job, without starting anything: missing and superfluous
// fields, ranges, combinations, the existence of its data files (opened below their root), and what
// this version does not implement. Field paths start at JobSpec (`loop.num_epochs`).
void ValidateJobSpec(const accel::v1::JobSpec& spec, const NodeLimits& limits,
                     FieldViolations* violations);

// Parts of a data file's name, `<root>/<path>`.
struct DataFile {
  std::string root;
  std::string path;
};

// Splits a name; INVALID_ARGUMENT for one without both parts, an absolute one, one with "." or ".."
// parts, a NUL byte, or more than 4096 bytes.
absl::StatusOr<DataFile> ParseDataFile(absl::string_view name);

// Whether `id` is a valid last part of a job's name.
bool IsValidJobId(absl::string_view id);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_JOB_SPEC_H_
