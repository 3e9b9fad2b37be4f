#ifndef ACCEL_CORE_CONFIG_PROCESS_GROUP_OPTIONS_H_
#define ACCEL_CORE_CONFIG_PROCESS_GROUP_OPTIONS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::config {

// Backend by device of `InitProcessGroupKwargs.backend`, as torch.distributed reads it: one name is
// for each device that it serves ("gloo": cpu and cuda; "nccl": cuda), a list `device:backend,...`
// names each, in any order. INVALID_ARGUMENT says what is allowed.
absl::StatusOr<std::map<std::string, std::string>> ParseBackend(absl::string_view text);

// `InitProcessGroupKwargs.init_method` in parts.
struct InitMethod {
  enum class Kind { kEnv, kTcp, kFile };

  Kind kind = Kind::kEnv;
  // kTcp: a numeric address.
  std::string host;
  // kTcp: 0 for any free one.
  int port = 0;
  // kFile: path below the node's folder of rendezvous files.
  std::string file;
};

// INVALID_ARGUMENT says what is allowed.
absl::StatusOr<InitMethod> ParseInitMethod(absl::string_view text);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_PROCESS_GROUP_OPTIONS_H_
