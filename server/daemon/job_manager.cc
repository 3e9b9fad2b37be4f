#include "server/daemon/job_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/daemon/grpc_status.h"
#include "server/daemon/job_changes.h"
#include "server/daemon/resource_names.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {

using accel::v1::Failure;
using accel::v1::Job;

JobManager::JobManager(JobManagerConfig config, JobStore* store, SupervisorLauncher* launcher,
                       JobObserver* observer, const Clock& clock)
    : config_(std::move(config)),
      store_(store),
      launcher_(launcher),
      observer_(observer),
      clock_(clock),
      queue_(config_.max_ranks) {}

JobManager::~JobManager() { Detach(); }

void JobManager::StopAdmission() {
  absl::MutexLock lock(&mutex_);
  admitting_ = false;
}

void JobManager::Detach() {
  {
    absl::MutexLock lock(&mutex_);
    admitting_ = false;
    stopping_ = true;
  }
  if (scheduler_.joinable()) scheduler_.join();
  if (cleaner_.joinable()) cleaner_.join();
  std::vector<std::shared_ptr<SupervisorHandle>> handles;
  {
    absl::MutexLock lock(&mutex_);
    handles.swap(ended_handles_);
    for (auto& [id, active] : active_) {
      if (active->handle != nullptr) handles.push_back(std::move(active->handle));
    }
  }
  for (const auto& handle : handles) handle->Detach();
}

absl::StatusOr<std::optional<std::string>> JobManager::FindAnswer(const RequestKey& key) {
  if (key.request_id.empty()) return std::optional<std::string>();
  return store_->FindAnswer(key.method, key.request_id, key.contents);
}

namespace {

// What the store keeps of an answer; none for a request without an id.
std::optional<AnsweredRequest> Answered(const RequestKey& key, std::string response) {
  if (key.request_id.empty()) return std::nullopt;
  return AnsweredRequest{key.method, key.request_id, key.contents, std::move(response)};
}

const AnsweredRequest* PointerTo(const std::optional<AnsweredRequest>& answer) {
  return answer.has_value() ? &*answer : nullptr;
}

absl::StatusOr<Job> ParseAnswer(const std::string& bytes) {
  Job job;
  if (!job.ParseFromString(bytes)) return absl::DataLossError("a kept answer cannot be read");
  return job;
}

}  // namespace

absl::Status JobManager::CheckNew(const Job& job) {
  if (!admitting_) return Draining();
  if (queue_.queued() >= config_.max_queued_jobs) {
    return WithErrorInfo(
        absl::ResourceExhaustedError(absl::StrCat(
            "the node's queue is full: ", config_.max_queued_jobs, " jobs wait; try again later")),
        "QUEUE_FULL", {{"max_queued_jobs", absl::StrCat(config_.max_queued_jobs)}});
  }
  if (job.name().empty()) return absl::OkStatus();
  const std::string id = JobIdOf(job);
  const bool known = store_->Get(id).ok();
  std::error_code error;
  if (!known && !std::filesystem::exists(config_.jobs_dir / id, error)) return absl::OkStatus();
  return WithErrorInfo(
      absl::AlreadyExistsError(
          known ? absl::StrCat("job id \"", id, "\" is in use on this node")
                : absl::StrCat("job id \"", id, "\" has a folder left over from an unknown job")),
      "JOB_ALREADY_EXISTS", {{"job", id}});
}

absl::Status JobManager::CompleteNew(Job* job) {
  ACCEL_RETURN_IF_ERROR(CheckNew(*job));
  job->set_state(Job::QUEUED);
  *job->mutable_create_time() =
      google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(NowMicros(clock_));
  return absl::OkStatus();
}

absl::StatusOr<Job> JobManager::Preview(Job job) {
  absl::MutexLock lock(&mutex_);
  ACCEL_RETURN_IF_ERROR(CompleteNew(&job));
  return WithEtag(std::move(job));
}

absl::StatusOr<Job> JobManager::Create(Job job, const RequestKey& key) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(const std::optional<std::string> earlier, FindAnswer(key));
  if (earlier.has_value()) return ParseAnswer(*earlier);
  ACCEL_RETURN_IF_ERROR(CompleteNew(&job));
  while (job.name().empty()) {
    const std::string id = GenerateJobId();
    if (absl::IsNotFound(store_->Get(id).status())) job.set_name(JobName(id));
  }
  job.set_uid(GenerateUid());
  Job response = WithEtag(job);

  auto active = std::make_unique<ActiveJob>();
  active->stored.job = std::move(job);
  const std::optional<AnsweredRequest> answer = Answered(key, response.SerializeAsString());
  ACCEL_RETURN_IF_ERROR(store_->Insert(&active->stored, PointerTo(answer)));
  const std::string id = JobIdOf(response);
  queue_.Enqueue(id, RanksOf(response));
  queue_changed_ = true;
  NoteTransition(response, Job::STATE_UNSPECIFIED);
  active_[id] = std::move(active);
  return response;
}

absl::StatusOr<StoredJob> JobManager::FindStored(const std::string& job_id) {
  if (const ActiveJob* const active = FindActive(job_id)) return active->stored;
  return store_->Get(job_id);
}

JobManager::ActiveJob* JobManager::FindActive(const std::string& job_id) {
  const auto found = active_.find(job_id);
  return found == active_.end() ? nullptr : found->second.get();
}

absl::StatusOr<Job> JobManager::Get(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(StoredJob stored, FindStored(job_id));
  return WithEtag(std::move(stored.job));
}

absl::StatusOr<std::vector<ListedJob>> JobManager::List(int64_t before,
                                                        absl::Span<const Job::State> states,
                                                        int limit) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(const std::vector<StoredJob> stored, store_->List(before, states, limit));
  std::vector<ListedJob> jobs;
  jobs.reserve(stored.size());
  for (const StoredJob& job : stored) {
    const ActiveJob* const active = FindActive(JobIdOf(job.job));
    jobs.push_back({job.order, WithEtag(active != nullptr ? active->stored.job : job.job)});
  }
  return jobs;
}

absl::StatusOr<Job> JobManager::Cancel(const std::string& job_id, double grace_seconds,
                                       const RequestKey& key) {
  std::shared_ptr<SupervisorHandle> handle;
  Watchers watchers;
  Job response;
  {
    absl::MutexLock lock(&mutex_);
    ACCEL_ASSIGN_OR_RETURN(const std::optional<std::string> earlier, FindAnswer(key));
    if (earlier.has_value()) return ParseAnswer(*earlier);
    ACCEL_ASSIGN_OR_RETURN(StoredJob next, FindStored(job_id));
    const Job::State from = next.job.state();
    if (IsTerminal(from) && from != Job::CANCELLED) {
      return WrongJobState(job_id, Job::State_Name(from), "JOB_ENDED", "it cannot be cancelled");
    }
    if (from == Job::QUEUED) {
      SetEnd(Job::CANCELLED, NowMicros(clock_), &next.job);
    } else if (!IsTerminal(from)) {
      next.job.set_state(Job::STOPPING);
      next.stop_grace_seconds = grace_seconds;
    }
    response = WithEtag(next.job);
    const std::optional<AnsweredRequest> answer = Answered(key, response.SerializeAsString());
    const absl::Status saved = store_->Update(next, PointerTo(answer));
    ActiveJob* const active = FindActive(job_id);
    const bool running = from != Job::QUEUED && !IsTerminal(from);
    // A job must be stoppable on a full disk too, most of all the one that filled it.
    if (!saved.ok() && !running) return saved;
    if (active != nullptr) {
      active->stored = std::move(next);
      if (!saved.ok()) Save(active);
      if (running) handle = active->handle;
    }
    if (response.state() != from) NoteTransition(response, from);
    if (queue_.Remove(job_id)) queue_changed_ = true;
    Retire(job_id);
    watchers = WatchersOf(job_id);
  }
  // Without a handle the job is being started: the new handle is told.
  if (handle != nullptr) handle->Stop(grace_seconds);
  for (const auto& watcher : watchers) watcher->OnJobChanged();
  return response;
}

absl::Status JobManager::RequestCheckpoint(const std::string& job_id, const RequestKey& key) {
  std::shared_ptr<SupervisorHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    ACCEL_ASSIGN_OR_RETURN(const std::optional<std::string> earlier, FindAnswer(key));
    if (earlier.has_value()) return absl::OkStatus();
    ACCEL_ASSIGN_OR_RETURN(const StoredJob stored, FindStored(job_id));
    if (stored.job.state() != Job::RUNNING) {
      return WrongJobState(job_id, Job::State_Name(stored.job.state()), "JOB_NOT_RUNNING",
                           "only a running job can write a checkpoint");
    }
    handle = FindActive(job_id)->handle;
  }
  if (handle == nullptr) return Draining();
  if (const absl::Status sent = handle->RequestCheckpoint(); !sent.ok()) {
    return WithErrorInfo(sent, "SUPERVISOR_UNREACHABLE", {{"job", job_id}});
  }
  const std::optional<AnsweredRequest> answer = Answered(key, "");
  if (!answer.has_value()) return absl::OkStatus();
  const absl::Status kept = store_->AddAnswer(*answer);
  // The same request at the same time was as good.
  return absl::IsAlreadyExists(kept) ? absl::OkStatus() : kept;
}

absl::StatusOr<JobPulse> JobManager::Pulse(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  if (const ActiveJob* const active = FindActive(job_id)) {
    return JobPulse{IsTerminal(active->stored.job.state()), active->last_sequence};
  }
  ACCEL_ASSIGN_OR_RETURN(const StoredJob stored, store_->Get(job_id));
  return JobPulse{IsTerminal(stored.job.state()), 0};
}

void JobManager::Watch(const std::string& job_id, const std::shared_ptr<JobWatcher>& watcher) {
  absl::MutexLock lock(&mutex_);
  watchers_[job_id][watcher.get()] = watcher;
}

void JobManager::Unwatch(const std::string& job_id, const JobWatcher* watcher) {
  absl::MutexLock lock(&mutex_);
  const auto found = watchers_.find(job_id);
  if (found == watchers_.end()) return;
  found->second.erase(watcher);
  if (found->second.empty()) watchers_.erase(found);
}

JobManager::Watchers JobManager::WatchersOf(const std::string& job_id) {
  Watchers watchers;
  const auto found = watchers_.find(job_id);
  if (found == watchers_.end()) return watchers;
  for (const auto& [key, weak] : found->second) {
    if (auto watcher = weak.lock()) watchers.push_back(std::move(watcher));
  }
  return watchers;
}

NodeLoad JobManager::Load() {
  absl::MutexLock lock(&mutex_);
  return NodeLoad{queue_.ranks_in_use(), queue_.queued(), counts_};
}

}  // namespace accel::daemon
