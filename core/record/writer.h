#ifndef ACCEL_CORE_RECORD_WRITER_H_
#define ACCEL_CORE_RECORD_WRITER_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/checkpoint.pb.h"
#include "accel/v1/telemetry.pb.h"

namespace accel::record {

// The one writer of a job's record, `job.db`: SQLite in WAL mode with synchronous=FULL, so that
// what Commit has returned OK for survives a crash of the machine, and readers in other processes
// see whole commits only. Not thread-safe: the supervisor's loop owns it.
//
// Rows get their sequence number when they are appended, from 1, without gaps, over all kinds and
// over restarts of the supervisor. Appended rows, the status and the checkpoints become visible
// together at the next Commit.
class Writer {
 public:
  // Opens or creates the record. FAILED_PRECONDITION when it was written by a newer version.
  static absl::StatusOr<std::unique_ptr<Writer>> Open(const std::filesystem::path& path);

  virtual ~Writer() = default;

  // Sets the row's `sequence` (what it held is ignored) and returns it. `time` is the caller's.
  virtual absl::StatusOr<int64_t> Append(accel::v1::MetricRecord record) = 0;
  virtual absl::StatusOr<int64_t> Append(accel::v1::LogRecord record) = 0;
  virtual absl::StatusOr<int64_t> Append(accel::v1::EventRecord record) = 0;

  // Replaces the job's status.
  virtual absl::Status SetStatus(const accel::internal::v1::JobStatus& status) = 0;

  // Adds or removes a complete checkpoint, by name.
  virtual absl::Status AddCheckpoint(const accel::v1::Checkpoint& checkpoint) = 0;
  virtual absl::Status RemoveCheckpoint(absl::string_view name) = 0;

  // Makes everything since the last Commit durable and visible. After an error nothing of it is,
  // and the same rows may be appended again.
  virtual absl::Status Commit() = 0;

  // Greatest number that is committed; 0 for an empty record.
  virtual int64_t last_sequence() const = 0;
};

}  // namespace accel::record

#endif  // ACCEL_CORE_RECORD_WRITER_H_
