#ifndef ACCEL_SERVER_SUPERVISOR_TRACKER_SYNC_H_
#define ACCEL_SERVER_SUPERVISOR_TRACKER_SYNC_H_

#include <filesystem>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace accel::supervisor {

// Sends what the trackers of an ended job have not got, and closes their runs, within `timeout`.
// How each stands then is in the record; OK says nothing about that. FAILED_PRECONDITION when
// another process has the job's folder: its supervisor, or another sync.
absl::Status SyncTrackers(const std::filesystem::path& job_dir, absl::Duration timeout);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_TRACKER_SYNC_H_
