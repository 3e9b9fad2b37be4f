#include "core/record/schema.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::record {
namespace {

// `payload` is the serialized message. AUTOINCREMENT keeps a checkpoint's place in time even when
// newer ones have been removed.
constexpr const char* kMigrations[kSchemaVersion] = {R"sql(
  CREATE TABLE rows (
    sequence INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    payload BLOB NOT NULL);
  CREATE INDEX rows_by_kind ON rows (kind, sequence);
  CREATE TABLE job_status (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    payload BLOB NOT NULL);
  CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    payload BLOB NOT NULL);
  CREATE TABLE tracker_cursors (
    tracker TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL);
)sql",
                                                     R"sql(
  CREATE TABLE tracker_status (
    tracker TEXT PRIMARY KEY,
    payload BLOB NOT NULL);
)sql"};

}  // namespace

absl::Status MigrateRecord(SqliteDatabase* database) { return database->Migrate(kMigrations); }

absl::Status CheckRecordSchema(SqliteDatabase* database) {
  ACCEL_ASSIGN_OR_RETURN(const int version, database->SchemaVersion(kSchemaVersion));
  if (version > 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("record ", database->path().string(), " does not exist yet"));
}

}  // namespace accel::record
