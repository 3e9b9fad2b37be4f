#ifndef ACCEL_SERVER_DAEMON_JOB_STORE_H_
#define ACCEL_SERVER_DAEMON_JOB_STORE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "accel/v1/job.pb.h"
#include "core/base/sqlite.h"

namespace accel::daemon {

// A job as the node keeps it.
struct StoredJob {
  accel::v1::Job job;
  // Place in the order of creation, from 1; given by Insert.
  int64_t order = 0;
  // Set once a client asked the job to end: seconds before force.
  std::optional<double> stop_grace_seconds;
  // Identity of the supervisor's process (ProcessIdentity::ToString); empty before it was started.
  std::string supervisor;
};

// A request that carries a request_id, and what was answered.
struct AnsweredRequest {
  // `JobService.CreateJob`.
  std::string method;
  std::string request_id;
  // Deterministic bytes of the request: a repeat must have the same.
  std::string contents;
  // Bytes of the answer.
  std::string response;
};

// One line of the audit trail: something that a client asked to change.
struct AuditEntry {
  absl::Time time;
  // As gRPC names it: `ipv4:127.0.0.1:4711`, `unix:`.
  std::string peer;
  std::string method;
  // Name of the job or checkpoint.
  std::string resource;
  // `OK`, or the code and reason of the refusal.
  std::string outcome;
};

// `node.db`: the node's jobs, answered requests and audit trail, durable when a method returns OK.
// Methods return the codes of core/base/sqlite.h and leave the database unchanged after an error.
// Thread-safe.
class JobStore {
 public:
  // Opens or creates the database. FAILED_PRECONDITION when a newer version wrote it.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::filesystem::path& path);

  // The answer to an earlier request with this method and id; none when there was none.
  // INVALID_ARGUMENT on `request_id` when the earlier one had other contents.
  absl::StatusOr<std::optional<std::string>> FindAnswer(absl::string_view method,
                                                        absl::string_view request_id,
                                                        absl::string_view contents);

  // Adds a job and sets its order. ALREADY_EXISTS with reason JOB_ALREADY_EXISTS. `answer`, where
  // given, is kept in the same transaction; so below.
  absl::Status Insert(StoredJob* job, const AnsweredRequest* answer = nullptr);
  // Replaces a job by its id.
  absl::Status Update(const StoredJob& job, const AnsweredRequest* answer = nullptr);
  absl::Status Delete(absl::string_view job_id, const AnsweredRequest* answer = nullptr);
  // Keeps an answer alone.
  absl::Status AddAnswer(const AnsweredRequest& answer);

  // NOT_FOUND with reason JOB_NOT_FOUND.
  absl::StatusOr<StoredJob> Get(absl::string_view job_id);
  // At most `limit` jobs with an order below `before`, newest first. No states means all.
  absl::StatusOr<std::vector<StoredJob>> List(int64_t before,
                                              absl::Span<const accel::v1::Job::State> states,
                                              int limit);
  // Jobs that have not ended, oldest first.
  absl::StatusOr<std::vector<StoredJob>> ListUnfinished();
  absl::StatusOr<std::map<accel::v1::Job::State, int64_t>> CountByState();

  absl::Status AddAudit(const AuditEntry& entry);
  // Newest first.
  absl::StatusOr<std::vector<AuditEntry>> ReadAudit(int limit);

  // Forgets answers older than a week and all but the newest 100,000 lines of the audit trail.
  absl::Status Prune(absl::Time now);

 private:
  explicit JobStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}

  absl::Status InsertAnswer(const AnsweredRequest& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Change>
  absl::Status Write(const AnsweredRequest* answer, Change change) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  const std::unique_ptr<SqliteDatabase> database_ ABSL_PT_GUARDED_BY(mutex_);
};

// Whether a job in this state will never change again.
bool IsTerminal(accel::v1::Job::State state);

// The id of a job of this node, from its name.
std::string JobIdOf(const accel::v1::Job& job);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_JOB_STORE_H_
