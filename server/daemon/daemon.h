#ifndef ACCEL_SERVER_DAEMON_DAEMON_H_
#define ACCEL_SERVER_DAEMON_DAEMON_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/daemon/options.h"

namespace accel::daemon {

// A running daemon: everything behind acceld but its process.
//
// While it serves, `<state_dir>/acceld.json` says how to reach it: `pid`, `version`,
// `listen_addresses`, `metrics_address` (empty when off), `state_dir`, `start_time` (RFC 3339).
class Daemon {
 public:
  // Takes the state folder, takes up its jobs, and serves. The reasons of errors are in
  // exit_codes.h.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options);

  virtual ~Daemon() = default;

  // Ends in order: health first, then streams (UNAVAILABLE, with the sequence to go on after), then
  // calls. Jobs go on. Takes a few seconds at most. Called by the destructor too.
  virtual void Drain() = 0;

  virtual const std::vector<std::string>& listen_addresses() const = 0;
  // Empty when off.
  virtual const std::string& metrics_address() const = 0;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_DAEMON_H_
