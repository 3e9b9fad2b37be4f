#ifndef ACCEL_SERVER_SUPERVISOR_JOB_RECORD_H_
#define ACCEL_SERVER_SUPERVISOR_JOB_RECORD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/checkpoint.pb.h"
#include "accel/v1/job.pb.h"
#include "accel/v1/telemetry.pb.h"
#include "core/base/clock.h"
#include "core/record/writer.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/record_buffer.h"

namespace accel::supervisor {

// The job's status and what is written of it, in the loop's thread. Rows are committed in batches
// of kCommitInterval; a change of the state at once. While the record cannot be written, everything
// is kept and tried again.
class JobRecord {
 public:
  static constexpr absl::Duration kCommitInterval = absl::Milliseconds(40);
  static constexpr absl::Duration kRetryInterval = absl::Seconds(1);

  // `status` is where the job stands: its attempts are kept. `on_commit` runs after each commit.
  // `loop` must outlive this.
  JobRecord(EventLoop& loop, const Clock& clock, std::unique_ptr<record::Writer> writer,
            accel::internal::v1::JobStatus status, std::function<void()> on_commit);
  ~JobRecord();
  JobRecord(const JobRecord&) = delete;
  JobRecord& operator=(const JobRecord&) = delete;

  const accel::internal::v1::JobStatus& status() const { return status_; }
  accel::v1::Job::State state() const { return status_.state(); }

  // What the record holds durably.
  accel::internal::v1::FromSupervisor Committed() const;

  // Each with its event, where there is one.
  void ChangeState(accel::v1::Job::State to);
  // `failure` is kept when `state` is FAILED.
  void EndJob(accel::v1::Job::State state, const std::optional<accel::v1::Failure>& failure);
  void BeginAttempt(const accel::v1::Attempt& attempt);
  void EndAttempt(const std::optional<accel::v1::Failure>& failure);
  void BeginTraining(const accel::v1::Progress& progress);
  void AddProcessGroup(const accel::v1::ProcessGroupInfo& group);
  void SetProgress(int64_t step, int64_t epoch);
  // The ranks have done their work, as the last one of them says.
  void SetFinished(const accel::internal::v1::Finished& finished);
  void SetEarlyStopped(const accel::v1::EarlyStopped& stopped);
  void AddMetrics(accel::v1::MetricRecord record);
  // Without a rank: a line of the supervisor.
  void AddLine(std::optional<int> rank, accel::v1::LogRecord::Source source, std::string text,
               bool truncated);
  // A line of the supervisor, in its own log too.
  void Note(std::string text);
  void AddBatchSizeReduced(int from, int to);
  void AddWarning(const std::string& subject, absl::string_view message);
  void AddCheckpoint(const accel::v1::Checkpoint& checkpoint, double stall_seconds);
  void RemoveCheckpoint(const std::string& name);

  // Commits now. False when that failed and will be tried again.
  bool Commit();

 private:
  accel::v1::EventRecord NewEvent(absl::string_view message) const;
  void PublishStatus();
  void CommitSoon();

  EventLoop& loop_;
  const Clock& clock_;
  RecordBuffer buffer_;
  accel::internal::v1::JobStatus status_;
  const std::function<void()> on_commit_;
  // Number of the attempt; 0 before the first.
  int attempt_ = 0;
  std::map<std::string, int64_t> warnings_;
  bool status_changed_ = false;
  std::optional<EventLoop::TimerId> commit_timer_;
  bool failing_ = false;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_JOB_RECORD_H_
