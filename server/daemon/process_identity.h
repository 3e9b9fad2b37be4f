#ifndef ACCEL_SERVER_DAEMON_PROCESS_IDENTITY_H_
#define ACCEL_SERVER_DAEMON_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/fd.h"

namespace accel::daemon {

// Names one process for ever: process ids are used again, so the time at which it started and the
// boot of the machine belong to it.
struct ProcessIdentity {
  pid_t pid = 0;
  // Clock ticks between the boot and the start of the process (proc(5), stat, field 22).
  std::string start_ticks;
  std::string boot_id;

  // Of a process that runs now or has not been reaped; none when there is no such process.
  static std::optional<ProcessIdentity> Of(pid_t pid);

  // `<pid>:<ticks>:<boot id>`, and back; none for a text that is no identity.
  std::string ToString() const;
  static std::optional<ProcessIdentity> Parse(absl::string_view text);

  // A pidfd of this very process; invalid when it is gone.
  Fd Open() const;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_PROCESS_IDENTITY_H_
