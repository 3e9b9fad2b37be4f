#ifndef ACCEL_SERVER_DAEMON_RESOURCE_NAMES_H_
#define ACCEL_SERVER_DAEMON_RESOURCE_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel::daemon {

// `jobs/{job}`.
std::string JobName(absl::string_view job_id);

// The id in `jobs/{job}`; INVALID_ARGUMENT on `field` for any other text.
absl::StatusOr<std::string> ParseJobName(absl::string_view name, absl::string_view field = "name");

// Parts of `jobs/{job}/checkpoints/{checkpoint}`.
struct CheckpointName {
  std::string job_id;
  // Checkpoints are numbered, growing.
  int64_t number = 0;
};

// INVALID_ARGUMENT on `field` for any other text.
absl::StatusOr<CheckpointName> ParseCheckpointName(absl::string_view name,
                                                   absl::string_view field = "name");

// A new id, `job-` and eight characters of a lower-case base32 alphabet, from the kernel's random
// numbers.
std::string GenerateJobId();

// A new version 4 UUID.
std::string GenerateUid();

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_RESOURCE_NAMES_H_
