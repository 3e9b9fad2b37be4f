#ifndef ACCEL_CLIENT_CLI_PLACES_H_
#define ACCEL_CLIENT_CLI_PLACES_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/io.h"

namespace accel::cli {

// State folder of a daemon that a system's operator runs.
inline constexpr char kSystemStateDir[] = "/var/lib/accel";

// What a running acceld says of itself in <state_dir>/acceld.json.
struct DaemonFile {
  pid_t pid = 0;
  std::string version;
  // Never empty.
  std::vector<std::string> listen_addresses;
  // Empty when the metrics endpoint is off.
  std::string metrics_address;
};

// State folder of this user's daemon: $ACCEL_STATE_DIR, $XDG_STATE_HOME/accel or
// ~/.local/state/accel. FAILED_PRECONDITION when none of these variables nor HOME is set.
absl::StatusOr<std::filesystem::path> UserStateDir(const Io& io);

// NOT_FOUND when there is no such file, DATA_LOSS when it is not acceld's.
absl::StatusOr<DaemonFile> ReadDaemonFile(const std::filesystem::path& state_dir);

// Whether `pid` runs a program named acceld.
bool IsAcceld(pid_t pid);

// Where the daemon is: `flag` unless empty, $ACCEL_ADDRESS, then the user's and the system's daemon
// if one has left its acceld.json or acceld.sock. UNAVAILABLE when there is none, naming the
// places.
absl::StatusOr<std::string> FindAddress(const Io& io, const std::string& flag);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_PLACES_H_
