#ifndef ACCEL_SERVER_DAEMON_EXIT_CODES_H_
#define ACCEL_SERVER_DAEMON_EXIT_CODES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace accel::daemon {

// Exit codes of acceld.
enum ExitCode : int {
  kExitOk = 0,
  // Anything that has no code of its own.
  kExitFailure = 1,
  // Wrong flags, or a configuration that is refused (an address beyond loopback).
  kExitUsage = 2,
  // Another daemon holds the state folder.
  kExitStateLocked = 3,
  // An address to listen on is taken by another process.
  kExitAddressInUse = 4,
};

// Reasons (google.rpc.ErrorInfo) of start-up errors that have an exit code of their own.
inline constexpr absl::string_view kReasonUsage = "INVALID_CONFIGURATION";
inline constexpr absl::string_view kReasonStateLocked = "STATE_DIR_LOCKED";
inline constexpr absl::string_view kReasonAddressInUse = "ADDRESS_IN_USE";

// The exit code for a start-up error, by its reason.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_EXIT_CODES_H_
