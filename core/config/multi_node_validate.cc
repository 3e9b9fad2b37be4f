#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/ip_address.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"
#include "core/config/job_spec.h"
#include "core/config/process_group_options.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;
using accel::v1::MultiNodeSpec;

void CheckAddress(const std::string& text, const std::string& path, const NodeLimits& limits,
                  FieldViolations* violations) {
  const auto address = IpAddress::Parse(text);
  if (!address.ok()) return violations->Add(path, address.status().message());
  if (RendezvousAllowed(*address, limits.rendezvous_networks)) return;
  violations->Add(path,
                  NotAllowed(Quoted(text),
                             limits.rendezvous_networks.empty()
                                 ? "loopback only: this node's operator allows no other network "
                                   "(--rendezvous_network)"
                                 : absl::StrCat("loopback and this node's --rendezvous_network ",
                                                absl::StrJoin(limits.rendezvous_networks, ", "))));
}

// Machines' numbers and the number of ranks on each. False where they make no sense.
bool CheckCounts(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  const int world_size = NumProcesses(spec);
  const int machines = NumMachines(spec);
  if (machines < 1) return false;
  if (world_size < 1 || world_size > int64_t{limits.max_world_size} * machines) {
    violations->Add(
        "num_processes",
        NotAllowed(absl::StrCat(world_size),
                   absl::StrCat("1 to ", int64_t{limits.max_world_size} * machines,
                                machines == 1
                                    ? ", this node's limit"
                                    : absl::StrCat(", this node's limit of ", limits.max_world_size,
                                                   " on each of ", machines, " machines"))));
    return false;
  }
  if (world_size % machines != 0) {
    violations->Add("num_processes",
                    NotAllowed(absl::StrCat(world_size),
                               absl::StrCat("multiples of multi_node.num_machines, ", machines)));
    return false;
  }
  return true;
}

void CheckMultiNode(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  const MultiNodeSpec& machines = spec.multi_node();
  const int count = NumMachines(spec);
  if (machines.machine_rank() >= count && count >= 1) {
    violations->Add("multi_node.machine_rank", NotAllowed(absl::StrCat(machines.machine_rank()),
                                                          absl::StrCat("0 to ", count - 1)));
  }
  if (count == 1) {
    const absl::string_view reason =
        "not allowed with one machine: its ranks meet where init_process_group_kwargs.init_method "
        "says";
    if (machines.has_main_process_ip()) violations->Add("multi_node.main_process_ip", reason);
    if (machines.has_main_process_port()) violations->Add("multi_node.main_process_port", reason);
    return;
  }
  if (!machines.has_main_process_ip()) {
    violations->Add("multi_node.main_process_ip", "required with several machines");
  } else {
    CheckAddress(machines.main_process_ip(), "multi_node.main_process_ip", limits, violations);
  }
  if (!machines.has_main_process_port()) {
    violations->Add("multi_node.main_process_port", "required with several machines");
  }
}

void CheckInitMethod(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  const auto& kwargs = spec.accelerator().init_process_group_kwargs();
  if (!kwargs.has_init_method()) return;
  const auto method = ParseInitMethod(kwargs.init_method());
  if (!method.ok() || method->kind != InitMethod::Kind::kTcp) return;
  CheckAddress(method->host, "accelerator.init_process_group_kwargs.init_method", limits,
               violations);
}

}  // namespace

void CheckMachines(const JobSpec& spec, const NodeLimits& limits, FieldViolations* violations) {
  if (spec.has_multi_node()) CheckMultiNode(spec, limits, violations);
  CheckInitMethod(spec, limits, violations);
  if (!CheckCounts(spec, limits, violations) || spec.device() != "cuda") return;
  if (limits.cuda_devices == 0) {
    violations->Add("device", "\"cuda\" is not allowed: this node has no CUDA device");
  } else if (ProcessesPerMachine(spec) > limits.cuda_devices) {
    violations->Add("num_processes",
                    NotAllowed(absl::StrCat(NumProcesses(spec)),
                               absl::StrCat("at most ", limits.cuda_devices,
                                            ", one rank for each CUDA device of this node")));
  }
}

}  // namespace accel::config
