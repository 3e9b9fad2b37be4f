#include "server/supervisor/job_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/record/reader.h"

namespace accel::supervisor {

namespace fs = std::filesystem;
using accel::internal::v1::JobLaunch;
using accel::internal::v1::JobStatus;
using accel::v1::Job;

bool IsTerminal(Job::State state) {
  return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED;
}

absl::StatusOr<Fd> JobFolder::Lock() const {
  const fs::path file = path / "supervisor.lock";
  Fd lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus("cannot open", file, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return ErrnoStatus("cannot lock", file, errno);
  return absl::FailedPreconditionError(
      absl::StrCat("another supervisor runs the job in ", path.string()));
}

absl::StatusOr<JobLaunch> JobFolder::ReadLaunch() const {
  const fs::path file = path / "launch.pb";
  ACCEL_ASSIGN_OR_RETURN(const std::string contents, FileSystem::Real().Read(file));
  JobLaunch launch;
  if (!launch.ParseFromString(contents) || launch.job().name().empty() ||
      launch.worker_path().empty()) {
    return absl::DataLossError(absl::StrCat(file.string(), " does not describe a job"));
  }
  return launch;
}

absl::StatusOr<JobStatus> JobFolder::ReadStatus() const {
  JobStatus queued;
  queued.set_state(Job::QUEUED);
  auto reader = record::Reader::Open(record());
  if (absl::IsNotFound(reader.status())) return queued;
  ACCEL_RETURN_IF_ERROR(reader.status());
  absl::StatusOr<JobStatus> status = (*reader)->ReadStatus();
  if (absl::IsNotFound(status.status())) return queued;
  if (status.ok() && IsTerminal(status->state())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job has ended: its state is ", Job::State_Name(status->state())));
  }
  return status;
}

}  // namespace accel::supervisor
