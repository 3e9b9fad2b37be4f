#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/fd.h"
#include "core/base/sqlite.h"
#include "core/base/status_macros.h"
#include "core/tracking/trackio/trackio_store.h"

namespace accel::tracking {
namespace {

// As the package waits for its lock.
constexpr int kLockTries = 100;
constexpr absl::Duration kLockWait = absl::Milliseconds(100);

// The tables that a reader needs; the package adds its others when it opens the file.
constexpr char kTables[] = R"sql(
  CREATE TABLE IF NOT EXISTS metrics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, timestamp TEXT NOT NULL,
    run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT,
    space_id TEXT);
  CREATE TABLE IF NOT EXISTS configs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT UNIQUE, run_name TEXT NOT NULL,
    config TEXT NOT NULL, created_at TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS system_metrics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT, timestamp TEXT NOT NULL,
    run_name TEXT NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);
  CREATE INDEX IF NOT EXISTS idx_metrics_run_step ON metrics (run_id, step);
  CREATE UNIQUE INDEX IF NOT EXISTS idx_metrics_log_id ON metrics (log_id)
    WHERE log_id IS NOT NULL;
)sql";

class SqliteStore final : public TrackioStore {
 public:
  SqliteStore(const std::filesystem::path& folder, const std::string& project)
      : path_(folder / absl::StrCat(project, ".db")), lock_path_(folder / (project + ".lock")) {}

  absl::Status Add(const TrackioRun& run, const std::vector<TrackioRow>& rows) override {
    ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path_.parent_path()));
    ACCEL_ASSIGN_OR_RETURN(const Fd lock, Lock());
    ACCEL_RETURN_IF_ERROR(Open());
    ACCEL_ASSIGN_OR_RETURN(
        SqliteTransaction transaction,
        SqliteTransaction::Begin(database_.get(), SqliteTransaction::Kind::kWrite));
    ACCEL_RETURN_IF_ERROR(WriteConfig(run));
    for (const TrackioRow& row : rows) ACCEL_RETURN_IF_ERROR(WriteRow(run, row));
    return transaction.Commit();
  }

  std::string location() const override { return path_.parent_path().string(); }

 private:
  absl::StatusOr<Fd> Lock() const {
    Fd fd(open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.valid()) return ErrnoStatus("cannot open", lock_path_, errno);
    for (int i = 0; i < kLockTries; ++i) {
      if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
      if (errno != EWOULDBLOCK && errno != EINTR)
        return ErrnoStatus("cannot lock", lock_path_, errno);
      absl::SleepFor(kLockWait);
    }
    return absl::UnavailableError(absl::StrCat(lock_path_.string(), " is held by another process"));
  }

  absl::Status Open() {
    if (database_ != nullptr) return absl::OkStatus();
    SqliteOptions options;
    options.durable = false;
    ACCEL_ASSIGN_OR_RETURN(auto database, SqliteDatabase::Open(path_, options));
    ACCEL_RETURN_IF_ERROR(database->Exec(kTables));
    database_ = std::move(database);
    return absl::OkStatus();
  }

  absl::Status WriteConfig(const TrackioRun& run) {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement replace,
        database_->Prepare("INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) "
                           "VALUES (?, ?, ?, ?)"));
    return replace.BindText(1, run.id)
        .BindText(2, run.name)
        .BindText(3, run.config)
        .BindText(4, run.created)
        .Run();
  }

  absl::Status WriteRow(const TrackioRun& run, const TrackioRow& row) {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement insert,
        database_->Prepare("INSERT OR IGNORE INTO metrics (run_id, timestamp, run_name, step, "
                           "metrics, log_id) VALUES (?, ?, ?, ?, ?, ?)"));
    return insert.BindText(1, run.id)
        .BindText(2, row.timestamp)
        .BindText(3, run.name)
        .Bind(4, row.step)
        .BindText(5, row.metrics)
        .BindText(6, row.log_id)
        .Run();
  }

  const std::filesystem::path path_;
  const std::filesystem::path lock_path_;
  std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace

std::unique_ptr<TrackioStore> TrackioStore::Sqlite(const std::filesystem::path& folder,
                                                   const std::string& project) {
  return std::make_unique<SqliteStore>(folder, project);
}

}  // namespace accel::tracking
