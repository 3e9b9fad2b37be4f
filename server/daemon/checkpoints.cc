#include "server/daemon/checkpoints.h"

#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/status_macros.h"
#include "core/record/reader.h"
#include "server/daemon/job_folder.h"

namespace accel::daemon {

absl::StatusOr<std::vector<accel::v1::Checkpoint>> ReadCheckpoints(
    const std::filesystem::path& jobs_dir, const std::string& job_id) {
  auto reader = record::Reader::Open(JobFolder{jobs_dir / job_id}.record());
  if (absl::IsNotFound(reader.status())) return std::vector<accel::v1::Checkpoint>();
  if (!reader.ok()) return reader.status();
  return (*reader)->ListCheckpoints();
}

absl::StatusOr<accel::v1::Checkpoint> FindCheckpoint(const std::filesystem::path& jobs_dir,
                                                     const CheckpointName& name) {
  const std::string full_name = absl::StrCat(JobName(name.job_id), "/checkpoints/", name.number);
  ACCEL_ASSIGN_OR_RETURN(std::vector<accel::v1::Checkpoint> checkpoints,
                         ReadCheckpoints(jobs_dir, name.job_id));
  for (accel::v1::Checkpoint& checkpoint : checkpoints) {
    std::error_code error;
    if (checkpoint.name() == full_name && std::filesystem::is_directory(checkpoint.path(), error)) {
      return std::move(checkpoint);
    }
  }
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat("no complete checkpoint \"", full_name, "\" on this node")),
      "CHECKPOINT_NOT_FOUND", {{"checkpoint", full_name}});
}

}  // namespace accel::daemon
