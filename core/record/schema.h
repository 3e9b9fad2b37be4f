#ifndef ACCEL_CORE_RECORD_SCHEMA_H_
#define ACCEL_CORE_RECORD_SCHEMA_H_

#include "absl/status/status.h"
#include "accel/v1/telemetry.pb.h"
#include "core/base/sqlite.h"

namespace accel::record {

// Kinds of rows, as stored.
enum class RowKind : int { kMetric = 1, kLog = 2, kEvent = 3 };

// The kind of a record's type.
template <typename Record>
struct RowKindOf;
template <>
struct RowKindOf<accel::v1::MetricRecord> {
  static constexpr RowKind kValue = RowKind::kMetric;
};
template <>
struct RowKindOf<accel::v1::LogRecord> {
  static constexpr RowKind kValue = RowKind::kLog;
};
template <>
struct RowKindOf<accel::v1::EventRecord> {
  static constexpr RowKind kValue = RowKind::kEvent;
};

// One row: the greatest sequence number, NULL for an empty record.
inline constexpr char kSelectLastSequence[] = "SELECT max(sequence) FROM rows";

// Newest version of the schema that this program knows.
inline constexpr int kSchemaVersion = 2;

// Creates the tables or brings them up to date; see SqliteDatabase::Migrate.
absl::Status MigrateRecord(SqliteDatabase* database);

// For connections that must not create the tables: NOT_FOUND when there are none yet,
// FAILED_PRECONDITION when they are newer than kSchemaVersion.
absl::Status CheckRecordSchema(SqliteDatabase* database);

}  // namespace accel::record

#endif  // ACCEL_CORE_RECORD_SCHEMA_H_
