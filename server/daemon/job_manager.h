#ifndef ACCEL_SERVER_DAEMON_JOB_MANAGER_H_
#define ACCEL_SERVER_DAEMON_JOB_MANAGER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "accel/v1/job.pb.h"
#include "core/base/clock.h"
#include "server/daemon/admission_queue.h"
#include "server/daemon/job_store.h"
#include "server/daemon/supervisor_handle.h"
#include "server/daemon/supervisor_launcher.h"

namespace accel::daemon {

// Told when a job has new rows or another state.
class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  // Called from any thread, without locks held. Must not block.
  virtual void OnJobChanged() = 0;
};

// Told of every change of a state, in order.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  // `from` is STATE_UNSPECIFIED for a new job. Called with the manager's lock held: must be quick
  // and must not call the manager.
  virtual void OnTransition(const std::string& job_id, accel::v1::Job::State from,
                            accel::v1::Job::State to, accel::v1::Failure::Cause cause) = 0;
  // A job that an earlier daemon started was taken up. The same rules.
  virtual void OnAdopted(const std::string& job_id) = 0;
};

// What a stream has to know of its job.
struct JobPulse {
  // The record is complete.
  bool ended = false;
  // Greatest sequence number that the supervisor has reported; 0 before.
  int64_t last_sequence = 0;
};

// How busy the node is.
struct NodeLoad {
  int ranks_in_use = 0;
  int queued_jobs = 0;
  std::map<accel::v1::Job::State, int64_t> jobs;
};

// A job in a list.
struct ListedJob {
  // Place in the order of creation.
  int64_t order = 0;
  accel::v1::Job job;
};

// A repeatable request: its contents without the answer. An empty request_id means none.
struct RequestKey {
  std::string method;
  std::string request_id;
  std::string contents;
};

struct JobManagerConfig {
  int max_ranks = 1;
  int max_queued_jobs = 1000;
  std::filesystem::path jobs_dir;
  SupervisorPatience patience;
};

// Every job of the node and its life: admission, supervisors, state changes, adoption after a
// restart. A change is in the store before anyone sees it; where the store cannot be written (a
// full disk), new jobs are refused, and running ones go on and are stored when that works again. A
// terminal state never changes. Thread-safe.
class JobManager : private SupervisorHandle::Owner {
 public:
  // The pointers must outlive the manager. `observer` may be null.
  JobManager(JobManagerConfig config, JobStore* store, SupervisorLauncher* launcher,
             JobObserver* observer, const Clock& clock = Clock::Real());
  ~JobManager() override;

  // Takes up what the store holds: queued jobs wait again; those that were started are adopted, or
  // ended as their record says. Returns when each supervisor that lives has answered, or after
  // `patience`. Then starts to admit jobs. Called once, before anything else.
  absl::Status Start(absl::Duration patience = absl::Seconds(5));
  // No job is started from here on.
  void StopAdmission();
  // Lets go of all supervisors, which go on. Called by the destructor too.
  void Detach();

  // Queues a job. `job` holds spec, resolved_accelerator and warnings, and a name if the client
  // chose one. The errors are those of CreateJob for job ids, request ids and the queue.
  absl::StatusOr<accel::v1::Job> Create(accel::v1::Job job, const RequestKey& key);
  // What Create would answer, without doing it.
  absl::StatusOr<accel::v1::Job> Preview(accel::v1::Job job);

  absl::StatusOr<accel::v1::Job> Get(const std::string& job_id);
  // As JobStore::List.
  absl::StatusOr<std::vector<ListedJob>> List(int64_t before,
                                              absl::Span<const accel::v1::Job::State> states,
                                              int limit);
  absl::StatusOr<accel::v1::Job> Cancel(const std::string& job_id, double grace_seconds,
                                        const RequestKey& key);
  absl::Status Delete(const std::string& job_id, const RequestKey& key);
  absl::Status RequestCheckpoint(const std::string& job_id, const RequestKey& key);

  absl::StatusOr<JobPulse> Pulse(const std::string& job_id);
  // Until Unwatch, or until `watcher` is gone.
  void Watch(const std::string& job_id, const std::shared_ptr<JobWatcher>& watcher);
  void Unwatch(const std::string& job_id, const JobWatcher* watcher);

  NodeLoad Load();
  const std::filesystem::path& jobs_dir() const { return config_.jobs_dir; }

 private:
  // A job that has not ended, or whose end is not stored yet, or whose supervisor still closes.
  struct ActiveJob {
    StoredJob stored;
    // Shared with whoever is sending something to the supervisor at the moment.
    std::shared_ptr<SupervisorHandle> handle;
    int64_t last_sequence = 0;
    // The store does not hold the newest state.
    bool unsaved = false;
  };
  using Watchers = std::vector<std::shared_ptr<JobWatcher>>;

  void OnSupervisorMessage(const std::string& job_id,
                           const accel::internal::v1::FromSupervisor& message) override;
  void OnSupervisorEnd(const std::string& job_id, const SupervisorEnd& end) override;

  // Recovery.
  void Adopt(StoredJob stored) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitAdopted(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

  // Admission.
  void RunScheduler();
  bool SchedulerHasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || queue_changed_ || !ended_handles_.empty();
  }
  // Takes the first job that may start out of the queue and writes its start down.
  std::optional<accel::v1::Job> AdmitNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts the supervisor of such a job.
  void Launch(const accel::v1::Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  void AttachSupervisor(ActiveJob* active, SupervisorProcess process)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SaveUnsaved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Changes of one job. Each sets the state, stores the job and tells the observer; an error of the
  // store leaves `unsaved` set.
  void ApplyStatus(ActiveJob* active, const accel::internal::v1::JobStatus& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetState(ActiveJob* active, accel::v1::Job::State state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(ActiveJob* active, accel::v1::Failure failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Save(ActiveJob* active) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteTransition(const accel::v1::Job& job, accel::v1::Job::State from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops what is not needed any more.
  void Retire(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Deletion.
  absl::Status CheckNoDependent(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MoveToTrash(const accel::v1::Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FinishDeletions();
  void RunCleaner();
  bool CleanerHasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || trash_changed_;
  }

  absl::Status CheckNew(const accel::v1::Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CompleteNew(accel::v1::Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::optional<std::string>> FindAnswer(const RequestKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ActiveJob* FindActive(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<StoredJob> FindStored(const std::string& job_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Watchers WatchersOf(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::filesystem::path TrashDir() const { return config_.jobs_dir.parent_path() / "trash"; }

  const JobManagerConfig config_;
  JobStore* const store_;
  SupervisorLauncher* const launcher_;
  JobObserver* const observer_;
  const Clock& clock_;

  absl::Mutex mutex_;
  AdmissionQueue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::unique_ptr<ActiveJob>> active_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::map<const JobWatcher*, std::weak_ptr<JobWatcher>>> watchers_
      ABSL_GUARDED_BY(mutex_);
  std::map<accel::v1::Job::State, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
  // Handles that have reported their end, kept for another thread to join theirs.
  std::vector<std::shared_ptr<SupervisorHandle>> ended_handles_ ABSL_GUARDED_BY(mutex_);
  bool admitting_ ABSL_GUARDED_BY(mutex_) = false;
  bool queue_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool admission_failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool trash_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int unsaved_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread scheduler_;
  std::thread cleaner_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_MANAGER_H_
