#ifndef ACCEL_SERVER_DAEMON_ADDRESS_H_
#define ACCEL_SERVER_DAEMON_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::daemon {

// Where to listen: a Unix socket, or a port on loopback.
struct Address {
  // Absolute path of a Unix socket; empty for TCP.
  std::string path;
  // "127.0.0.1" or another address of 127.0.0.0/8, or "::1"; empty for a Unix socket.
  std::string host;
  // 0 lets the kernel choose.
  int port = 0;

  bool is_unix() const { return !path.empty(); }
  // `unix:<path>`, `<ip>:<port>` or `[<ip>]:<port>`.
  std::string ToString() const;
};

// Reads what ToString writes. INVALID_ARGUMENT with reason INVALID_CONFIGURATION for any other
// text, for an address beyond loopback (there is no TLS and no token yet that could guard it), and
// for a socket path that is longer than the kernel allows.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Whether `address` could be bound now. ALREADY_EXISTS with reason ADDRESS_IN_USE when another
// process has it; otherwise the code of the failed call. A Unix socket on which nobody listens
// counts as free. Nothing stays bound.
absl::Status ProbeAddress(const Address& address);

// Connects to a TCP address and hangs up, which wakes whoever listens there.
void TouchAddress(const Address& address);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_ADDRESS_H_
