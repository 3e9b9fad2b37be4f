#include "core/record/writer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sqlite.h"
#include "core/base/status_macros.h"
#include "core/record/schema.h"

namespace accel::record {
namespace {

// Keeps everything in memory until Commit, so that the write lock is held only while rows are
// written and the trackers' cursors can be advanced in between.
class SqliteWriter final : public Writer {
 public:
  SqliteWriter(std::unique_ptr<SqliteDatabase> database, int64_t last_sequence)
      : database_(std::move(database)), last_sequence_(last_sequence) {}

  absl::StatusOr<int64_t> Append(accel::v1::MetricRecord record) override {
    return AppendRow(std::move(record));
  }
  absl::StatusOr<int64_t> Append(accel::v1::LogRecord record) override {
    return AppendRow(std::move(record));
  }
  absl::StatusOr<int64_t> Append(accel::v1::EventRecord record) override {
    return AppendRow(std::move(record));
  }

  absl::Status SetStatus(const accel::internal::v1::JobStatus& status) override {
    status_ = status.SerializeAsString();
    return absl::OkStatus();
  }

  absl::Status AddCheckpoint(const accel::v1::Checkpoint& checkpoint) override {
    if (checkpoint.name().empty()) return absl::InvalidArgumentError("checkpoint without a name");
    checkpoints_.emplace_back(checkpoint.name(), checkpoint.SerializeAsString());
    return absl::OkStatus();
  }

  absl::Status RemoveCheckpoint(absl::string_view name) override {
    checkpoints_.emplace_back(name, std::nullopt);
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    if (rows_.empty() && checkpoints_.empty() && !status_.has_value()) return absl::OkStatus();
    const int64_t committed = last_sequence_ + static_cast<int64_t>(rows_.size());
    absl::Status result = WriteAll();
    if (result.ok()) last_sequence_ = committed;
    rows_.clear();
    checkpoints_.clear();
    status_.reset();
    return result;
  }

  int64_t last_sequence() const override { return last_sequence_; }

 private:
  struct Row {
    RowKind kind;
    std::string payload;
  };

  template <typename Record>
  int64_t AppendRow(Record record) {
    const int64_t sequence = last_sequence_ + static_cast<int64_t>(rows_.size()) + 1;
    record.set_sequence(sequence);
    rows_.push_back({RowKindOf<Record>::kValue, record.SerializeAsString()});
    return sequence;
  }

  absl::Status WriteAll() {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteTransaction transaction,
        SqliteTransaction::Begin(database_.get(), SqliteTransaction::Kind::kWrite));
    ACCEL_RETURN_IF_ERROR(WriteRows());
    ACCEL_RETURN_IF_ERROR(WriteStatus());
    ACCEL_RETURN_IF_ERROR(WriteCheckpoints());
    return transaction.Commit();
  }

  absl::Status WriteRows() {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement insert,
        database_->Prepare("INSERT INTO rows (sequence, kind, payload) VALUES (?, ?, ?)"));
    int64_t sequence = last_sequence_;
    for (const Row& row : rows_) {
      insert.Bind(1, ++sequence).Bind(2, static_cast<int>(row.kind)).BindBlob(3, row.payload);
      ACCEL_RETURN_IF_ERROR(insert.Run());
      insert.Reset();
    }
    return absl::OkStatus();
  }

  absl::Status WriteStatus() {
    if (!status_.has_value()) return absl::OkStatus();
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement replace,
        database_->Prepare("INSERT OR REPLACE INTO job_status (id, payload) VALUES (1, ?)"));
    return replace.BindBlob(1, *status_).Run();
  }

  absl::Status WriteCheckpoints() {
    for (const auto& [name, payload] : checkpoints_) {
      ACCEL_ASSIGN_OR_RETURN(SqliteStatement remove,
                             database_->Prepare("DELETE FROM checkpoints WHERE name = ?"));
      ACCEL_RETURN_IF_ERROR(remove.BindText(1, name).Run());
      if (!payload.has_value()) continue;
      ACCEL_ASSIGN_OR_RETURN(
          SqliteStatement insert,
          database_->Prepare("INSERT INTO checkpoints (name, payload) VALUES (?, ?)"));
      ACCEL_RETURN_IF_ERROR(insert.BindText(1, name).BindBlob(2, *payload).Run());
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<SqliteDatabase> database_;
  int64_t last_sequence_;
  std::vector<Row> rows_;
  std::optional<std::string> status_;
  // In the order of the calls; nothing removes the checkpoint of that name.
  std::vector<std::pair<std::string, std::optional<std::string>>> checkpoints_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Writer>> Writer::Open(const std::filesystem::path& path) {
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  ACCEL_RETURN_IF_ERROR(MigrateRecord(database.get()));
  int64_t last = 0;
  {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement select, database->Prepare(kSelectLastSequence));
    ACCEL_RETURN_IF_ERROR(select.Step().status());
    last = select.Int64(0);
  }
  return std::make_unique<SqliteWriter>(std::move(database), last);
}

}  // namespace accel::record
