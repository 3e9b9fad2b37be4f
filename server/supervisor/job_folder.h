#ifndef ACCEL_SERVER_SUPERVISOR_JOB_FOLDER_H_
#define ACCEL_SERVER_SUPERVISOR_JOB_FOLDER_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"

namespace accel::supervisor {

// Whether a job stays in this state for ever.
bool IsTerminal(accel::v1::Job::State state);

// What lies in a job's folder.
struct JobFolder {
  std::filesystem::path path;

  std::filesystem::path record() const { return path / "job.db"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }

  // Makes the folder this process's own for as long as the result lives. FAILED_PRECONDITION when
  // another supervisor has it.
  absl::StatusOr<Fd> Lock() const;

  // What to run, from launch.pb. DATA_LOSS when it does not describe a job.
  absl::StatusOr<accel::internal::v1::JobLaunch> ReadLaunch() const;

  // Where an earlier supervisor left the job; one that has not begun is queued.
  // FAILED_PRECONDITION when it has ended.
  absl::StatusOr<accel::internal::v1::JobStatus> ReadStatus() const;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_JOB_FOLDER_H_
