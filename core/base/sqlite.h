#ifndef ACCEL_CORE_BASE_SQLITE_H_
#define ACCEL_CORE_BASE_SQLITE_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

struct sqlite3;
struct sqlite3_stmt;

namespace accel {

// Thin ownership over SQLite's C API. Nothing here is thread-safe: a database, its statements and
// its transactions are used by one thread at a time.
//
// Errors name the database's path, what was done and SQLite's text. Codes:
//   RESOURCE_EXHAUSTED   disk full, out of memory
//   DATA_LOSS            corrupt, not a database, input/output error
//   UNAVAILABLE          still locked after the busy timeout
//   ALREADY_EXISTS       a primary key or a unique column is taken
//   FAILED_PRECONDITION  any other constraint (foreign key, NOT NULL, CHECK)
//   PERMISSION_DENIED    read-only database or no access
//   INVALID_ARGUMENT     a value too long for SQLite
//   INTERNAL             wrong SQL, wrong use
// A file that cannot be opened gives the code of the failed system call (NOT_FOUND, ...).
struct SqliteOptions {
  // Never creates or changes the database; a missing one is NOT_FOUND.
  bool read_only = false;
  // Whether a commit is on the disk when it returns. False: a crash of the machine, not of the
  // process, may undo the last commits; commits stay in order.
  bool durable = true;
  // How long another connection's lock is waited for.
  absl::Duration busy_timeout = absl::Seconds(10);
};

class SqliteDatabase;

// A statement that is ready to be bound and stepped; when it is destroyed it goes back to its
// database's cache. Must not outlive the database. Bind indices count from 1, columns from 0.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&& other) noexcept;
  SqliteStatement& operator=(SqliteStatement&&) = delete;
  ~SqliteStatement();

  // The first error of a binding is returned by Step. Bytes are copied. Any integer type and bool
  // are stored as INTEGER.
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
  SqliteStatement& Bind(int index, Integer value) {
    return BindInt64(index, static_cast<int64_t>(value));
  }
  SqliteStatement& Bind(int index, double value);
  SqliteStatement& BindText(int index, absl::string_view value);
  SqliteStatement& BindBlob(int index, absl::string_view value);
  SqliteStatement& BindNull(int index);

  // Goes on to the next row; false at the end. After the end or an error only Reset may follow.
  absl::StatusOr<bool> Step();
  // Steps to the end, for statements whose rows do not matter.
  absl::Status Run();
  // Ready to be bound and stepped again, without bindings.
  void Reset();

  // Values of the current row, converted by SQLite's rules: NULL reads as 0 or "". Views are valid
  // until the next call of Step, Reset or the destructor.
  bool IsNull(int column) const;
  int64_t Int64(int column) const;
  double Double(int column) const;
  absl::string_view Text(int column) const;
  absl::string_view Blob(int column) const;

 private:
  friend class SqliteDatabase;
  SqliteStatement(SqliteDatabase* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}
  SqliteStatement& BindInt64(int index, int64_t value);
  void Keep(int result);

  SqliteDatabase* database_;
  sqlite3_stmt* statement_;
  int bind_result_ = 0;
};

// A connection, in WAL mode with foreign keys on.
class SqliteDatabase {
 public:
  // Opens `path` and, unless read-only, creates it (mode 0600) when it is missing; its folder must
  // exist.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::filesystem::path& path,
                                                              const SqliteOptions& options = {});
  ~SqliteDatabase();

  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // Brings the schema to version `migrations.size()`, kept in user_version: script i, any number
  // of statements, leads from version i to i + 1. All in one transaction. FAILED_PRECONDITION with
  // ErrorInfo SCHEMA_TOO_NEW when the database is newer.
  absl::Status Migrate(absl::Span<const char* const> migrations);

  // Version of the schema; 0 for an empty database. The error of Migrate when it is above `newest`.
  absl::StatusOr<int> SchemaVersion(int newest);

  // Runs any number of statements without parameters.
  absl::Status Exec(absl::string_view sql);

  // One statement. Compiled once for each text and kept, so `sql` should be a constant.
  absl::StatusOr<SqliteStatement> Prepare(absl::string_view sql);

  // Rows changed by the last INSERT, UPDATE or DELETE that ran.
  int64_t Changes() const;
  // Row id of the last INSERT.
  int64_t LastInsertId() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  friend class SqliteStatement;
  friend class SqliteTransaction;
  explicit SqliteDatabase(const std::filesystem::path& path) : path_(path) {}

  absl::Status Configure(const SqliteOptions& options);
  absl::Status ToStatus(int result, absl::string_view what) const;
  void GiveBack(sqlite3_stmt* statement);

  const std::filesystem::path path_;
  sqlite3* handle_ = nullptr;
  // Compiled statements by their text; null while one is lent out.
  absl::flat_hash_map<std::string, sqlite3_stmt*> statements_;
};

// A transaction; rolled back when it is destroyed before Commit has succeeded. Statements that
// were used in it should be destroyed or reset before it ends.
class SqliteTransaction {
 public:
  enum class Kind {
    // One snapshot for all reads, taken at the first of them.
    kRead,
    // Takes the write lock at once.
    kWrite,
  };

  static absl::StatusOr<SqliteTransaction> Begin(SqliteDatabase* database, Kind kind);

  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  // After an error nothing of the transaction is in the database.
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteDatabase* database) : database_(database) {}
  void Rollback();

  // Null once it has ended.
  SqliteDatabase* database_;
};

}  // namespace accel

#endif  // ACCEL_CORE_BASE_SQLITE_H_
