#include "core/base/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel {
namespace {

absl::StatusCode CodeOf(int extended_result, int system_error) {
  switch (extended_result) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_ROWID:
      return absl::StatusCode::kAlreadyExists;
    default:
      break;
  }
  switch (extended_result & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CONSTRAINT:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_TOOBIG:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_INTERRUPT:
      return absl::StatusCode::kCancelled;
    case SQLITE_CANTOPEN:
      return system_error != 0 ? absl::ErrnoToStatusCode(system_error)
                               : absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

// SQLite would create the file readable by all; its -wal and -shm files take over the mode. An
// existing file is not opened here: closing a descriptor of it would drop the locks that other
// connections of this process hold.
absl::Status CreatePrivateFile(const std::filesystem::path& path) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() && errno != EEXIST) return ErrnoStatus("cannot create", path, errno);
  return absl::OkStatus();
}

}  // namespace

SqliteStatement::SqliteStatement(SqliteStatement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      bind_result_(other.bind_result_) {}

SqliteStatement::~SqliteStatement() {
  if (statement_ == nullptr) return;
  Reset();
  database_->GiveBack(statement_);
}

void SqliteStatement::Keep(int result) {
  if (bind_result_ == SQLITE_OK) bind_result_ = result;
}

SqliteStatement& SqliteStatement::BindInt64(int index, int64_t value) {
  Keep(sqlite3_bind_int64(statement_, index, value));
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int index, double value) {
  Keep(sqlite3_bind_double(statement_, index, value));
  return *this;
}

// An empty view may have a null pointer, which SQLite would take for NULL.
SqliteStatement& SqliteStatement::BindText(int index, absl::string_view value) {
  Keep(sqlite3_bind_text64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                           SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(int index, absl::string_view value) {
  Keep(sqlite3_bind_blob64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                           SQLITE_TRANSIENT));
  return *this;
}

SqliteStatement& SqliteStatement::BindNull(int index) {
  Keep(sqlite3_bind_null(statement_, index));
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  if (bind_result_ != SQLITE_OK) {
    return database_->ToStatus(bind_result_, absl::StrCat("bind ", sqlite3_sql(statement_)));
  }
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return database_->ToStatus(result, sqlite3_sql(statement_));
}

absl::Status SqliteStatement::Run() {
  while (true) {
    ACCEL_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bind_result_ = SQLITE_OK;
}

bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

int64_t SqliteStatement::Int64(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double SqliteStatement::Double(int column) const {
  return sqlite3_column_double(statement_, column);
}

absl::string_view SqliteStatement::Text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

absl::string_view SqliteStatement::Blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return {data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(
    const std::filesystem::path& path, const SqliteOptions& options) {
  auto database = std::unique_ptr<SqliteDatabase>(new SqliteDatabase(path));
  if (!options.read_only) ACCEL_RETURN_IF_ERROR(CreatePrivateFile(path));
  const int flags =
      SQLITE_OPEN_NOMUTEX | (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
  const int result = sqlite3_open_v2(path.c_str(), &database->handle_, flags, nullptr);
  if (result != SQLITE_OK) return database->ToStatus(result, "open");
  ACCEL_RETURN_IF_ERROR(database->Configure(options));
  return database;
}

SqliteDatabase::~SqliteDatabase() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

absl::Status SqliteDatabase::Configure(const SqliteOptions& options) {
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, static_cast<int>(absl::ToInt64Milliseconds(options.busy_timeout)));
  ACCEL_RETURN_IF_ERROR(Exec("PRAGMA foreign_keys=ON"));
  if (options.read_only) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(Exec("PRAGMA journal_mode=WAL"));
  return Exec(options.durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
}

absl::Status SqliteDatabase::ToStatus(int result, absl::string_view what) const {
  if (result == SQLITE_OK) return absl::OkStatus();
  // Without a handle (out of memory in open) only the code's own text is left.
  const int code = handle_ != nullptr ? sqlite3_extended_errcode(handle_) : result;
  const char* text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
  const int system_error = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
  return absl::Status(CodeOf(code != SQLITE_OK ? code : result, system_error),
                      absl::StrCat("database ", path_.string(), ": ", what, ": ", text));
}

absl::StatusOr<int> SqliteDatabase::SchemaVersion(int newest) {
  ACCEL_ASSIGN_OR_RETURN(SqliteStatement statement, Prepare("PRAGMA user_version"));
  ACCEL_RETURN_IF_ERROR(statement.Step().status());
  const auto version = static_cast<int>(statement.Int64(0));
  if (version <= newest) return version;
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat("database ", path_.string(), " has schema ",
                                                 version, ", this program knows up to ", newest)),
      "SCHEMA_TOO_NEW",
      {{"path", path_.string()},
       {"version", absl::StrCat(version)},
       {"newest_known", absl::StrCat(newest)}});
}

absl::Status SqliteDatabase::Migrate(absl::Span<const char* const> migrations) {
  ACCEL_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                         SqliteTransaction::Begin(this, SqliteTransaction::Kind::kWrite));
  const int newest = static_cast<int>(migrations.size());
  ACCEL_ASSIGN_OR_RETURN(const int version, SchemaVersion(newest));
  if (version == newest) return absl::OkStatus();
  for (int i = version; i < newest; ++i) ACCEL_RETURN_IF_ERROR(Exec(migrations[i]));
  ACCEL_RETURN_IF_ERROR(Exec(absl::StrCat("PRAGMA user_version=", newest)));
  return transaction.Commit();
}

absl::Status SqliteDatabase::Exec(absl::string_view sql) {
  const std::string text(sql);
  const int result = sqlite3_exec(handle_, text.c_str(), nullptr, nullptr, nullptr);
  return ToStatus(result, text);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(absl::string_view sql) {
  auto cached = statements_.find(sql);
  if (cached != statements_.end() && cached->second != nullptr) {
    return SqliteStatement(this, std::exchange(cached->second, nullptr));
  }
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (result != SQLITE_OK) return ToStatus(result, sql);
  statements_.try_emplace(std::string(sql), nullptr);
  return SqliteStatement(this, statement);
}

void SqliteDatabase::GiveBack(sqlite3_stmt* statement) {
  sqlite3_stmt*& cached = statements_[sqlite3_sql(statement)];
  // Two of the same text were in use at once: one is enough for the cache.
  if (cached != nullptr) sqlite3_finalize(statement);
  if (cached == nullptr) cached = statement;
}

int64_t SqliteDatabase::Changes() const { return sqlite3_changes64(handle_); }

int64_t SqliteDatabase::LastInsertId() const { return sqlite3_last_insert_rowid(handle_); }

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteDatabase* database, Kind kind) {
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement begin,
      database->Prepare(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN DEFERRED"));
  ACCEL_RETURN_IF_ERROR(begin.Run());
  return SqliteTransaction(database);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() { Rollback(); }

absl::Status SqliteTransaction::Commit() {
  if (database_ == nullptr) return absl::InternalError("transaction has already ended");
  absl::Status status = [this]() -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement commit, database_->Prepare("COMMIT"));
    return commit.Run();
  }();
  if (status.ok()) database_ = nullptr;
  Rollback();
  return status;
}

void SqliteTransaction::Rollback() {
  SqliteDatabase* database = std::exchange(database_, nullptr);
  // SQLite has already rolled back by itself after some errors (disk full).
  if (database == nullptr || sqlite3_get_autocommit(database->handle_) != 0) return;
  // A failing rollback leaves nothing to do: the next Begin reports it.
  database->Exec("ROLLBACK").IgnoreError();
}

}  // namespace accel
