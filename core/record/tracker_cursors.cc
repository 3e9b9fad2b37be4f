#include "core/record/tracker_cursors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/record/schema.h"

namespace accel::record {

TrackerCursors::TrackerCursors(std::unique_ptr<SqliteDatabase> database)
    : database_(std::move(database)) {}

absl::StatusOr<std::unique_ptr<TrackerCursors>> TrackerCursors::Open(
    const std::filesystem::path& path) {
  // Only the Writer creates a record.
  if (std::error_code error; !std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("record ", path.string(), " does not exist yet"));
  }
  SqliteOptions options;
  // The Writer's own commits put the positions on the disk soon enough; a sync here would hold the
  // lock that it waits for.
  options.durable = false;
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                         SqliteDatabase::Open(path, options));
  ACCEL_RETURN_IF_ERROR(CheckRecordSchema(database.get()));
  return std::unique_ptr<TrackerCursors>(new TrackerCursors(std::move(database)));
}

absl::StatusOr<std::optional<int64_t>> TrackerCursors::Get(absl::string_view tracker) {
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT sequence FROM tracker_cursors WHERE tracker = ?"));
  ACCEL_ASSIGN_OR_RETURN(const bool found, select.BindText(1, tracker).Step());
  if (!found) return std::nullopt;
  return select.Int64(0);
}

absl::Status TrackerCursors::Set(absl::string_view tracker, int64_t sequence) {
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement replace,
      database_->Prepare(
          "INSERT OR REPLACE INTO tracker_cursors (tracker, sequence) VALUES (?, ?)"));
  return replace.BindText(1, tracker).Bind(2, sequence).Run();
}

absl::StatusOr<std::optional<accel::v1::TrackerStatus>> TrackerCursors::GetStatus(
    absl::string_view tracker) {
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT payload FROM tracker_status WHERE tracker = ?"));
  ACCEL_ASSIGN_OR_RETURN(const bool found, select.BindText(1, tracker).Step());
  accel::v1::TrackerStatus status;
  if (!found || !status.ParseFromString(std::string(select.Blob(0)))) return std::nullopt;
  return status;
}

absl::Status TrackerCursors::SetStatus(const accel::v1::TrackerStatus& status) {
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement replace,
      database_->Prepare("INSERT OR REPLACE INTO tracker_status (tracker, payload) VALUES (?, ?)"));
  return replace.BindText(1, status.name()).BindBlob(2, status.SerializeAsString()).Run();
}

}  // namespace accel::record
