#ifndef ACCEL_SERVER_DAEMON_STATE_LOCK_H_
#define ACCEL_SERVER_DAEMON_STATE_LOCK_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "core/base/fd.h"

namespace accel::daemon {

// Keeps a second daemon off a state folder: an flock on its file `lock`, which holds the holder's
// process id as text. The kernel gives the lock up when the process ends, however it ends.
class StateLock {
 public:
  // ALREADY_EXISTS with reason STATE_DIR_LOCKED, naming the holder's pid, when the folder is held.
  static absl::StatusOr<StateLock> Acquire(const std::filesystem::path& state_dir);

 private:
  explicit StateLock(Fd file) : file_(std::move(file)) {}

  Fd file_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_STATE_LOCK_H_
