#ifndef ACCEL_SERVER_SUPERVISOR_RECORD_BUFFER_H_
#define ACCEL_SERVER_SUPERVISOR_RECORD_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/checkpoint.pb.h"
#include "accel/v1/telemetry.pb.h"
#include "core/record/writer.h"

namespace accel::supervisor {

// What is to go into the job's record, kept until it is durable: when the disk is full the job goes
// on, and a later Commit writes what was kept. Beyond a bound the oldest log lines are given up,
// then the oldest metrics, never events; a Warning event with the subject `record` says how many
// rows.
class RecordBuffer {
 public:
  static constexpr size_t kDefaultMaxBytes = 64 << 20;

  explicit RecordBuffer(std::unique_ptr<record::Writer> writer,
                        size_t max_bytes = kDefaultMaxBytes);

  void Add(accel::v1::MetricRecord record) { AddRow(std::move(record)); }
  void Add(accel::v1::LogRecord record) { AddRow(std::move(record)); }
  void Add(accel::v1::EventRecord record) { AddRow(std::move(record)); }
  // The newest one counts.
  void SetStatus(accel::internal::v1::JobStatus status);
  void AddCheckpoint(accel::v1::Checkpoint checkpoint);
  void RemoveCheckpoint(std::string name);

  // Whether there is something to commit.
  bool dirty() const;

  // Makes all of it durable in one transaction. After an error all of it is still there.
  absl::Status Commit();

  // What the record says since the last Commit that succeeded. Default before the first.
  const accel::internal::v1::JobStatus& committed_status() const { return committed_status_; }
  int64_t last_sequence() const { return writer_->last_sequence(); }

 private:
  using Record =
      std::variant<accel::v1::MetricRecord, accel::v1::LogRecord, accel::v1::EventRecord>;
  struct Row {
    Record record;
    size_t bytes;
  };
  // The name is removed where there is no checkpoint.
  struct CheckpointChange {
    std::string name;
    std::optional<accel::v1::Checkpoint> checkpoint;
  };

  void AddRow(Record record);
  void GiveUpRows();
  template <typename T>
  void GiveUpOldest(size_t until_bytes);
  void NoteLoss();
  absl::Status HandOver();

  const std::unique_ptr<record::Writer> writer_;
  const size_t max_bytes_;
  std::vector<Row> rows_;
  size_t bytes_ = 0;
  int64_t given_up_ = 0;
  std::vector<CheckpointChange> checkpoints_;
  std::optional<accel::internal::v1::JobStatus> status_;
  accel::internal::v1::JobStatus committed_status_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_RECORD_BUFFER_H_
