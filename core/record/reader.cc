#include "core/record/reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/sqlite.h"
#include "core/base/status_macros.h"
#include "core/record/schema.h"

namespace accel::record {
namespace {

template <typename Message>
absl::StatusOr<Message> Parse(absl::string_view payload, absl::string_view what) {
  Message message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return absl::DataLossError(absl::StrCat("record holds a damaged ", what));
  }
  return message;
}

class SqliteReader final : public Reader {
 public:
  explicit SqliteReader(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)) {}

  absl::StatusOr<Rows<accel::v1::MetricRecord>> ReadMetrics(int64_t after,
                                                            ReadLimits limits) override {
    return Read<accel::v1::MetricRecord>(after, limits);
  }
  absl::StatusOr<Rows<accel::v1::LogRecord>> ReadLogs(int64_t after, ReadLimits limits) override {
    return Read<accel::v1::LogRecord>(after, limits);
  }
  absl::StatusOr<Rows<accel::v1::EventRecord>> ReadEvents(int64_t after,
                                                          ReadLimits limits) override {
    return Read<accel::v1::EventRecord>(after, limits);
  }

  absl::StatusOr<accel::internal::v1::JobStatus> ReadStatus() override {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement select,
                           database_->Prepare("SELECT payload FROM job_status"));
    ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return absl::NotFoundError("record has no status yet");
    return Parse<accel::internal::v1::JobStatus>(select.Blob(0), "status");
  }

  absl::StatusOr<std::vector<accel::v1::Checkpoint>> ListCheckpoints() override {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement select,
                           database_->Prepare("SELECT payload FROM checkpoints ORDER BY id DESC"));
    std::vector<accel::v1::Checkpoint> checkpoints;
    while (true) {
      ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return checkpoints;
      ACCEL_ASSIGN_OR_RETURN(checkpoints.emplace_back(),
                             Parse<accel::v1::Checkpoint>(select.Blob(0), "checkpoint"));
    }
  }

  absl::StatusOr<std::vector<accel::v1::TrackerStatus>> ListTrackers() override {
    std::vector<accel::v1::TrackerStatus> trackers;
    // A record of version 1 has no such table.
    ACCEL_ASSIGN_OR_RETURN(const int version, database_->SchemaVersion(kSchemaVersion));
    if (version < 2) return trackers;
    ACCEL_ASSIGN_OR_RETURN(
        SqliteTransaction snapshot,
        SqliteTransaction::Begin(database_.get(), SqliteTransaction::Kind::kRead));
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement select,
        database_->Prepare("SELECT payload FROM tracker_status ORDER BY tracker"));
    while (true) {
      ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      ACCEL_ASSIGN_OR_RETURN(trackers.emplace_back(), Parse<accel::v1::TrackerStatus>(
                                                          select.Blob(0), "status of a tracker"));
    }
    for (accel::v1::TrackerStatus& tracker : trackers) {
      ACCEL_ASSIGN_OR_RETURN(const int64_t lag, CountMetricsAfter(tracker.last_sequence()));
      tracker.set_lag_rows(lag);
    }
    return trackers;
  }

  absl::StatusOr<int64_t> LastSequence() override {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement select, database_->Prepare(kSelectLastSequence));
    ACCEL_RETURN_IF_ERROR(select.Step().status());
    return select.Int64(0);
  }

 private:
  absl::StatusOr<int64_t> CountMetricsAfter(int64_t after) {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement select,
        database_->Prepare("SELECT count(*) FROM rows WHERE kind = ? AND sequence > ?"));
    select.Bind(1, static_cast<int>(RowKind::kMetric)).Bind(2, after);
    ACCEL_RETURN_IF_ERROR(select.Step().status());
    return select.Int64(0);
  }

  template <typename Record>
  absl::StatusOr<Rows<Record>> Read(int64_t after, ReadLimits limits) {
    // Without the transaction, a row of this kind that is committed between the two queries would
    // lie below next_after and never be read.
    ACCEL_ASSIGN_OR_RETURN(
        SqliteTransaction snapshot,
        SqliteTransaction::Begin(database_.get(), SqliteTransaction::Kind::kRead));
    Rows<Record> rows;
    ACCEL_ASSIGN_OR_RETURN(const bool at_end, ReadRows(after, limits, &rows));
    if (at_end) {
      ACCEL_ASSIGN_OR_RETURN(const int64_t last, LastSequence());
      rows.next_after = std::max(after, last);
    }
    return rows;
  }

  // Returns whether there are no further rows of this kind.
  template <typename Record>
  absl::StatusOr<bool> ReadRows(int64_t after, ReadLimits limits, Rows<Record>* rows) {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement select,
                           database_->Prepare("SELECT sequence, payload FROM rows WHERE kind = ? "
                                              "AND sequence > ? ORDER BY sequence"));
    select.Bind(1, static_cast<int>(RowKindOf<Record>::kValue)).Bind(2, after);
    int64_t bytes = 0;
    while (true) {
      ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return true;
      const absl::string_view payload = select.Blob(1);
      bytes += static_cast<int64_t>(payload.size());
      const bool full =
          static_cast<int64_t>(rows->records.size()) >= limits.rows || bytes > limits.bytes;
      if (full && !rows->records.empty()) return false;
      rows->next_after = select.Int64(0);
      ACCEL_ASSIGN_OR_RETURN(rows->records.emplace_back(),
                             Parse<Record>(payload, absl::StrCat("row ", rows->next_after)));
    }
  }

  const std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::filesystem::path& path) {
  SqliteOptions options;
  options.read_only = true;
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                         SqliteDatabase::Open(path, options));
  ACCEL_RETURN_IF_ERROR(CheckRecordSchema(database.get()));
  return std::make_unique<SqliteReader>(std::move(database));
}

}  // namespace accel::record
