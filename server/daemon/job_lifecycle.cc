// The part of JobManager that changes jobs by itself: recovery, admission, what supervisors say.

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/daemon/job_changes.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/process_identity.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

using accel::v1::Failure;
using accel::v1::Job;
using google::protobuf::util::TimeUtil;

Failure MakeFailure(Failure::Cause cause, std::string message) {
  Failure failure;
  failure.set_cause(cause);
  failure.set_message(std::move(message));
  return failure;
}

Failure SupervisorFailure(const SupervisorEnd& end) {
  Failure failure = MakeFailure(Failure::SUPERVISOR, "supervisor ended without a word");
  if (end.signal.has_value()) {
    failure.set_signal(*end.signal);
    absl::StrAppend(failure.mutable_message(), ": exited on signal ", *end.signal);
  } else if (end.exit_code.has_value()) {
    failure.set_exit_code(*end.exit_code);
    absl::StrAppend(failure.mutable_message(), ": exited with code ", *end.exit_code);
  }
  return failure;
}

}  // namespace

absl::Status JobManager::Start(absl::Duration patience) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(config_.jobs_dir));
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(TrashDir()));
  ACCEL_RETURN_IF_ERROR(FinishDeletions());
  ACCEL_ASSIGN_OR_RETURN(std::vector<StoredJob> unfinished, store_->ListUnfinished());
  {
    absl::MutexLock lock(&mutex_);
    ACCEL_ASSIGN_OR_RETURN(counts_, store_->CountByState());
    for (StoredJob& stored : unfinished) Adopt(std::move(stored));
  }
  AwaitAdopted(patience);
  absl::MutexLock lock(&mutex_);
  admitting_ = true;
  queue_changed_ = true;
  trash_changed_ = true;
  scheduler_ = std::thread(&JobManager::RunScheduler, this);
  cleaner_ = std::thread(&JobManager::RunCleaner, this);
  return absl::OkStatus();
}

void JobManager::Adopt(StoredJob stored) {
  const std::string id = JobIdOf(stored.job);
  const int ranks = RanksOf(stored.job);
  auto owned = std::make_unique<ActiveJob>();
  ActiveJob* const active = owned.get();
  active->stored = std::move(stored);
  active_[id] = std::move(owned);
  if (active->stored.job.state() == Job::QUEUED) {
    if (ranks <= config_.max_ranks) {
      queue_.Enqueue(id, ranks);
    } else {
      Fail(active, MakeFailure(Failure::JOB, absl::StrCat("needs ", ranks,
                                                          " ranks; the node now "
                                                          "allows ",
                                                          config_.max_ranks)));
      Retire(id);
    }
    return;
  }
  spdlog::info("job {}: taking it up again, it was {}", id,
               Job::State_Name(active->stored.job.state()));
  queue_.Occupy(id, ranks);
  if (observer_ != nullptr) observer_->OnAdopted(id);
  SupervisorProcess process;
  if (const auto identity = ProcessIdentity::Parse(active->stored.supervisor)) {
    process.pidfd = identity->Open();
  }
  AttachSupervisor(active, std::move(process));
}

void JobManager::AwaitAdopted(absl::Duration patience) {
  std::vector<std::shared_ptr<SupervisorHandle>> handles;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, active] : active_) {
      if (active->handle != nullptr) handles.push_back(active->handle);
    }
  }
  const absl::Duration deadline = clock_.Monotonic() + patience;
  for (const auto& handle : handles) handle->AwaitSettled(deadline - clock_.Monotonic());
}

void JobManager::AttachSupervisor(ActiveJob* active, SupervisorProcess process) {
  const std::string id = JobIdOf(active->stored.job);
  SupervisorPatience patience = config_.patience;
  // A process that was known and is gone needs no second look; one that is not known may be just
  // about to listen.
  if (!process.pidfd.valid() && !active->stored.supervisor.empty()) {
    patience.connect_unknown = absl::ZeroDuration();
  }
  active->handle =
      std::make_shared<SupervisorHandle>(id, JobFolder{config_.jobs_dir / id}, std::move(process),
                                         static_cast<SupervisorHandle::Owner*>(this), patience);
  if (active->stored.stop_grace_seconds.has_value()) {
    active->handle->Stop(*active->stored.stop_grace_seconds);
  }
}

void JobManager::RunScheduler() {
  while (true) {
    std::vector<std::shared_ptr<SupervisorHandle>> ended;
    std::optional<Job> next;
    {
      absl::MutexLock lock(&mutex_);
      const bool retry = unsaved_ > 0 || admission_failed_;
      mutex_.AwaitWithTimeout(absl::Condition(this, &JobManager::SchedulerHasWork),
                              retry ? kRetryInterval : absl::InfiniteDuration());
      if (stopping_) return;
      ended.swap(ended_handles_);
      admission_failed_ = false;
      SaveUnsaved();
      if (admitting_) next = AdmitNext();
      queue_changed_ = next.has_value();
    }
    if (next.has_value()) Launch(*next);
  }
}

std::optional<Job> JobManager::AdmitNext() {
  const std::optional<std::string> job_id = queue_.Admit();
  if (!job_id.has_value()) return std::nullopt;
  ActiveJob* const active = FindActive(*job_id);
  StoredJob next = active->stored;
  *next.job.mutable_start_time() = TimeUtil::MicrosecondsToTimestamp(NowMicros(clock_));
  next.job.set_state(Job::STARTING);
  if (const absl::Status status = store_->Update(next); !status.ok()) {
    spdlog::error("job {}: waits, its start cannot be stored: {}", *job_id,
                  std::string(status.message()));
    queue_.PutBack(*job_id, RanksOf(next.job));
    admission_failed_ = true;
    return std::nullopt;
  }
  active->stored = std::move(next);
  NoteTransition(active->stored.job, Job::QUEUED);
  return active->stored.job;
}

void JobManager::Launch(const Job& job) {
  const std::string job_id = JobIdOf(job);
  absl::StatusOr<LaunchedSupervisor> launched = launcher_->Launch(job);
  Watchers watchers;
  {
    absl::MutexLock lock(&mutex_);
    // Still there: a job without a supervisor is only stopped by its new one.
    ActiveJob* const active = FindActive(job_id);
    if (launched.ok()) {
      active->stored.supervisor = launched->identity;
      Save(active);
      AttachSupervisor(active, std::move(launched->process));
    } else {
      const bool checkpoint_gone =
          absl::IsNotFound(launched.status()) && job.spec().has_resume_from();
      Fail(active, MakeFailure(checkpoint_gone ? Failure::STORAGE : Failure::INTERNAL,
                               absl::StrCat("supervisor could not be started: ",
                                            launched.status().message())));
      Retire(job_id);
    }
    watchers = WatchersOf(job_id);
  }
  for (const auto& watcher : watchers) watcher->OnJobChanged();
}

void JobManager::OnSupervisorMessage(const std::string& job_id,
                                     const accel::internal::v1::FromSupervisor& message) {
  Watchers watchers;
  {
    absl::MutexLock lock(&mutex_);
    ActiveJob* const active = FindActive(job_id);
    if (active == nullptr) return;
    active->last_sequence = std::max(active->last_sequence, message.last_sequence());
    ApplyStatus(active, message.status());
    watchers = WatchersOf(job_id);
  }
  for (const auto& watcher : watchers) watcher->OnJobChanged();
}

void JobManager::OnSupervisorEnd(const std::string& job_id, const SupervisorEnd& end) {
  Watchers watchers;
  {
    absl::MutexLock lock(&mutex_);
    ActiveJob* const active = FindActive(job_id);
    if (active == nullptr) return;
    if (active->handle != nullptr) ended_handles_.push_back(std::move(active->handle));
    active->handle = nullptr;
    if (end.status.has_value()) ApplyStatus(active, *end.status);
    if (!IsTerminal(active->stored.job.state())) {
      // The daemon ended between writing down the start and starting anything.
      const bool never_started = !end.status.has_value() && active->stored.supervisor.empty();
      if (!never_started) {
        Fail(active, SupervisorFailure(end));
      } else if (active->stored.stop_grace_seconds.has_value()) {
        SetState(active, Job::CANCELLED);
      } else {
        queue_.PutBack(job_id, RanksOf(active->stored.job));
        active->stored.job.clear_start_time();
        SetState(active, Job::QUEUED);
        queue_changed_ = true;
      }
    }
    Retire(job_id);
    watchers = WatchersOf(job_id);
  }
  for (const auto& watcher : watchers) watcher->OnJobChanged();
}

void JobManager::ApplyStatus(ActiveJob* active, const accel::internal::v1::JobStatus& status) {
  Job* const job = &active->stored.job;
  const Job::State from = job->state();
  MergeStatus(status, active->stored.stop_grace_seconds.has_value(), NowMicros(clock_), job);
  if (job->state() == from) return;
  const Job::State to = job->state();
  job->set_state(from);
  SetState(active, to);
}

void JobManager::SetState(ActiveJob* active, Job::State state) {
  Job* const job = &active->stored.job;
  const Job::State from = job->state();
  if (IsTerminal(state) && !job->has_end_time()) SetEnd(state, NowMicros(clock_), job);
  job->set_state(state);
  Save(active);
  NoteTransition(*job, from);
  if (IsTerminal(state)) {
    queue_.Release(JobIdOf(*job));
    queue_changed_ = true;
  }
}

void JobManager::Fail(ActiveJob* active, Failure failure) {
  *active->stored.job.mutable_failure() = std::move(failure);
  SetState(active, Job::FAILED);
}

void JobManager::Save(ActiveJob* active) {
  const absl::Status status = store_->Update(active->stored);
  if (!status.ok()) {
    spdlog::error("job {}: its change cannot be stored, will try again: {}",
                  JobIdOf(active->stored.job), std::string(status.message()));
  }
  unsaved_ += static_cast<int>(!status.ok()) - static_cast<int>(active->unsaved);
  active->unsaved = !status.ok();
}

void JobManager::SaveUnsaved() {
  if (unsaved_ == 0) return;
  std::vector<std::string> ids;
  for (const auto& [id, active] : active_) {
    if (active->unsaved) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    Save(FindActive(id));
    Retire(id);
  }
}

void JobManager::NoteTransition(const Job& job, Job::State from) {
  const std::string id = JobIdOf(job);
  if (from != Job::STATE_UNSPECIFIED) --counts_[from];
  ++counts_[job.state()];
  if (job.state() == Job::FAILED) {
    spdlog::warn("job {}: FAILED: {}", id, job.failure().message());
  } else {
    spdlog::info("job {}: {}", id, Job::State_Name(job.state()));
  }
  if (observer_ != nullptr) {
    observer_->OnTransition(id, from, job.state(), job.failure().cause());
  }
}

void JobManager::Retire(const std::string& job_id) {
  const ActiveJob* const active = FindActive(job_id);
  if (active == nullptr || active->unsaved || active->handle != nullptr) return;
  if (IsTerminal(active->stored.job.state())) active_.erase(job_id);
}

}  // namespace accel::daemon
