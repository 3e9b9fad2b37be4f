// The part of JobManager that deletes jobs. A folder is first moved to the trash, then its job is
// forgotten, then the folder is removed; what lies in the trash was asked to be deleted, so each
// step can be made up for after a crash.

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/daemon/grpc_status.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/resource_names.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {
namespace fs = std::filesystem;

using accel::v1::Job;

absl::Status JobManager::Delete(const std::string& job_id, const RequestKey& key) {
  std::shared_ptr<SupervisorHandle> handle;
  Watchers watchers;
  {
    absl::MutexLock lock(&mutex_);
    if (!key.request_id.empty()) {
      ACCEL_ASSIGN_OR_RETURN(const std::optional<std::string> earlier, FindAnswer(key));
      if (earlier.has_value()) return absl::OkStatus();
    }
    ACCEL_ASSIGN_OR_RETURN(const StoredJob stored, FindStored(job_id));
    if (!IsTerminal(stored.job.state())) {
      return WrongJobState(job_id, Job::State_Name(stored.job.state()), "JOB_NOT_ENDED",
                           "cancel it first");
    }
    ACCEL_RETURN_IF_ERROR(CheckNoDependent(job_id));
    ACCEL_RETURN_IF_ERROR(MoveToTrash(stored.job));
    const AnsweredRequest answer{key.method, key.request_id, key.contents, ""};
    const absl::Status deleted = store_->Delete(job_id, key.request_id.empty() ? nullptr : &answer);
    if (!deleted.ok()) {
      const fs::path trash = TrashDir() / absl::StrCat(job_id, ".", stored.job.uid());
      std::rename(trash.c_str(), (config_.jobs_dir / job_id).c_str());
      return deleted;
    }
    --counts_[stored.job.state()];
    if (ActiveJob* const active = FindActive(job_id)) {
      // A supervisor that is still closing its trackers has nothing left to write to.
      handle = std::move(active->handle);
      if (active->unsaved) --unsaved_;
      active_.erase(job_id);
    }
    trash_changed_ = true;
    watchers = WatchersOf(job_id);
  }
  if (handle != nullptr) handle->KillAndJoin();
  for (const auto& watcher : watchers) watcher->OnJobChanged();
  spdlog::info("job {}: deleted", job_id);
  return absl::OkStatus();
}

absl::Status JobManager::CheckNoDependent(const std::string& job_id) {
  const std::string prefix = absl::StrCat(JobName(job_id), "/");
  for (const auto& [id, active] : active_) {
    const Job& other = active->stored.job;
    if (!IsTerminal(other.state()) && absl::StartsWith(other.spec().resume_from(), prefix)) {
      return WithErrorInfo(
          absl::FailedPreconditionError(absl::StrCat(
              "job \"", id, "\" starts from a checkpoint of \"", job_id, "\" and has not ended")),
          "JOB_IN_USE", {{"job", job_id}, {"used_by", id}});
    }
  }
  return absl::OkStatus();
}

absl::Status JobManager::MoveToTrash(const Job& job) {
  const fs::path folder = config_.jobs_dir / JobIdOf(job);
  const fs::path trash = TrashDir() / absl::StrCat(JobIdOf(job), ".", job.uid());
  // A job that never started has no folder.
  if (std::rename(folder.c_str(), trash.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("cannot move", folder, errno);
  }
  return absl::OkStatus();
}

absl::Status JobManager::FinishDeletions() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(TrashDir(), error)) {
    const std::string name = entry.path().filename().string();
    const std::string id = name.substr(0, name.find('.'));
    const absl::StatusOr<StoredJob> stored = store_->Get(id);
    if (stored.ok() && absl::StrCat(id, ".", stored->job.uid()) == name) {
      ACCEL_RETURN_IF_ERROR(store_->Delete(id));
    }
  }
  return error ? ErrnoStatus("cannot list", TrashDir(), error.value()) : absl::OkStatus();
}

void JobManager::RunCleaner() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &JobManager::CleanerHasWork));
      if (stopping_) return;
      trash_changed_ = false;
    }
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(TrashDir(), error)) {
      std::error_code failed;
      fs::remove_all(entry.path(), failed);
      if (failed) {
        spdlog::warn("cannot remove {}: {}", entry.path().string(), failed.message());
      }
    }
  }
}

}  // namespace accel::daemon
