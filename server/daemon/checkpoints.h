#ifndef ACCEL_SERVER_DAEMON_CHECKPOINTS_H_
#define ACCEL_SERVER_DAEMON_CHECKPOINTS_H_

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/checkpoint.pb.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {

// Complete checkpoints of a job, newest first, from its record below `jobs_dir`; none when the job
// has no record yet.
absl::StatusOr<std::vector<accel::v1::Checkpoint>> ReadCheckpoints(
    const std::filesystem::path& jobs_dir, const std::string& job_id);

// One complete checkpoint whose folder exists. NOT_FOUND with reason CHECKPOINT_NOT_FOUND.
absl::StatusOr<accel::v1::Checkpoint> FindCheckpoint(const std::filesystem::path& jobs_dir,
                                                     const CheckpointName& name);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_CHECKPOINTS_H_
