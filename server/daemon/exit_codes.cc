#include "server/daemon/exit_codes.h"

#include "server/daemon/grpc_status.h"

namespace accel::daemon {

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  const std::string reason = ReasonOf(status);
  if (reason == kReasonUsage) return kExitUsage;
  if (reason == kReasonStateLocked) return kExitStateLocked;
  if (reason == kReasonAddressInUse) return kExitAddressInUse;
  return kExitFailure;
}

}  // namespace accel::daemon
