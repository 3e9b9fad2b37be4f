#include "server/daemon/job_store.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors.h"
#include "core/base/status_macros.h"
#include "server/daemon/grpc_status.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;

constexpr const char* kMigrations[] = {
    R"sql(
    CREATE TABLE jobs (
      ord INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      uid TEXT NOT NULL UNIQUE,
      state INTEGER NOT NULL,
      stop_grace REAL,
      supervisor TEXT NOT NULL,
      job BLOB NOT NULL
    );
    CREATE INDEX jobs_by_state ON jobs (state);
    CREATE TABLE answers (
      method TEXT NOT NULL,
      request_id TEXT NOT NULL,
      time_us INTEGER NOT NULL,
      contents BLOB NOT NULL,
      response BLOB NOT NULL,
      PRIMARY KEY (method, request_id)
    ) WITHOUT ROWID;
    CREATE TABLE audit (
      number INTEGER PRIMARY KEY AUTOINCREMENT,
      time_us INTEGER NOT NULL,
      peer TEXT NOT NULL,
      method TEXT NOT NULL,
      resource TEXT NOT NULL,
      outcome TEXT NOT NULL
    );
    )sql",
};

constexpr absl::Duration kAnswersKept = absl::Hours(24 * 7);
constexpr int64_t kAuditLinesKept = 100000;

int64_t StateBit(Job::State state) { return int64_t{1} << state; }

int64_t UnfinishedStates() {
  int64_t bits = 0;
  for (int state = 0; state < Job::State_ARRAYSIZE; ++state) {
    if (!IsTerminal(static_cast<Job::State>(state))) bits |= int64_t{1} << state;
  }
  return bits;
}

// Reads columns ord, stop_grace, supervisor, job.
absl::StatusOr<StoredJob> ReadJob(const SqliteStatement& row) {
  StoredJob stored;
  stored.order = row.Int64(0);
  if (!row.IsNull(1)) stored.stop_grace_seconds = row.Double(1);
  stored.supervisor = std::string(row.Text(2));
  const absl::string_view blob = row.Blob(3);
  if (!stored.job.ParseFromArray(blob.data(), static_cast<int>(blob.size()))) {
    return absl::DataLossError(absl::StrCat("job number ", stored.order, " cannot be read"));
  }
  return stored;
}

absl::StatusOr<std::vector<StoredJob>> ReadJobs(SqliteStatement* rows) {
  std::vector<StoredJob> jobs;
  while (true) {
    ACCEL_ASSIGN_OR_RETURN(const bool more, rows->Step());
    if (!more) return jobs;
    ACCEL_ASSIGN_OR_RETURN(StoredJob job, ReadJob(*rows));
    jobs.push_back(std::move(job));
  }
}

void BindMutable(const StoredJob& job, SqliteStatement* statement) {
  statement->Bind(2, static_cast<int>(job.job.state()));
  if (job.stop_grace_seconds.has_value()) {
    statement->Bind(3, *job.stop_grace_seconds);
  } else {
    statement->BindNull(3);
  }
  statement->BindText(4, job.supervisor);
  statement->BindBlob(5, job.job.SerializeAsString());
}

}  // namespace

bool IsTerminal(Job::State state) {
  return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED;
}

std::string JobIdOf(const Job& job) { return std::string(absl::StripPrefix(job.name(), "jobs/")); }

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::filesystem::path& path) {
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  ACCEL_RETURN_IF_ERROR(database->Migrate(kMigrations));
  return std::unique_ptr<JobStore>(new JobStore(std::move(database)));
}

template <typename Change>
absl::Status JobStore::Write(const AnsweredRequest* answer, Change change) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(
      SqliteTransaction transaction,
      SqliteTransaction::Begin(database_.get(), SqliteTransaction::Kind::kWrite));
  ACCEL_RETURN_IF_ERROR(change(database_.get()));
  if (answer != nullptr) ACCEL_RETURN_IF_ERROR(InsertAnswer(*answer));
  return transaction.Commit();
}

absl::Status JobStore::InsertAnswer(const AnsweredRequest& answer) {
  ACCEL_ASSIGN_OR_RETURN(SqliteStatement insert,
                         database_->Prepare("INSERT INTO answers (method, request_id, time_us, "
                                            "contents, response) VALUES (?, ?, ?, ?, ?)"));
  return insert.BindText(1, answer.method)
      .BindText(2, answer.request_id)
      .Bind(3, absl::ToUnixMicros(absl::Now()))
      .BindBlob(4, answer.contents)
      .BindBlob(5, answer.response)
      .Run();
}

absl::StatusOr<std::optional<std::string>> JobStore::FindAnswer(absl::string_view method,
                                                                absl::string_view request_id,
                                                                absl::string_view contents) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare(
          "SELECT contents, response FROM answers WHERE method = ? AND request_id = ?"));
  select.BindText(1, method).BindText(2, request_id);
  ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return std::optional<std::string>();
  if (select.Blob(0) != contents) {
    return InvalidField("request_id", absl::StrCat("\"", request_id,
                                                   "\" was used for another request; use a new one "
                                                   "for each request and repeat it unchanged"));
  }
  return std::optional<std::string>(select.Blob(1));
}

absl::Status JobStore::Insert(StoredJob* job, const AnsweredRequest* answer) {
  return Write(answer, [&](SqliteDatabase* database) -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement insert,
        database->Prepare("INSERT INTO jobs (id, state, stop_grace, supervisor, job, uid) "
                          "VALUES (?, ?, ?, ?, ?, ?)"));
    const std::string id = JobIdOf(job->job);
    insert.BindText(1, id);
    BindMutable(*job, &insert);
    insert.BindText(6, job->job.uid());
    absl::Status status = insert.Run();
    if (absl::IsAlreadyExists(status)) {
      return WithErrorInfo(
          absl::AlreadyExistsError(absl::StrCat("job id \"", id, "\" is in use on this node")),
          "JOB_ALREADY_EXISTS", {{"job", id}});
    }
    job->order = database->LastInsertId();
    return status;
  });
}

absl::Status JobStore::Update(const StoredJob& job, const AnsweredRequest* answer) {
  return Write(answer, [&](SqliteDatabase* database) -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement update,
                           database->Prepare("UPDATE jobs SET state = ?2, stop_grace = ?3, "
                                             "supervisor = ?4, job = ?5 WHERE id = ?1"));
    const std::string id = JobIdOf(job.job);
    update.BindText(1, id);
    BindMutable(job, &update);
    ACCEL_RETURN_IF_ERROR(update.Run());
    return database->Changes() == 1 ? absl::OkStatus() : JobNotFound(id);
  });
}

absl::Status JobStore::Delete(absl::string_view job_id, const AnsweredRequest* answer) {
  return Write(answer, [&](SqliteDatabase* database) -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement statement,
                           database->Prepare("DELETE FROM jobs WHERE id = ?"));
    ACCEL_RETURN_IF_ERROR(statement.BindText(1, job_id).Run());
    return database->Changes() == 1 ? absl::OkStatus() : JobNotFound(job_id);
  });
}

absl::Status JobStore::AddAnswer(const AnsweredRequest& answer) {
  return Write(&answer, [](SqliteDatabase*) { return absl::OkStatus(); });
}

absl::StatusOr<StoredJob> JobStore::Get(absl::string_view job_id) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT ord, stop_grace, supervisor, job FROM jobs WHERE id = ?"));
  select.BindText(1, job_id);
  ACCEL_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return JobNotFound(job_id);
  return ReadJob(select);
}

absl::StatusOr<std::vector<StoredJob>> JobStore::List(int64_t before,
                                                      absl::Span<const Job::State> states,
                                                      int limit) {
  int64_t bits = states.empty() ? -1 : 0;
  for (const Job::State state : states) bits |= StateBit(state);
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT ord, stop_grace, supervisor, job FROM jobs "
                         "WHERE ord < ?1 AND (?2 & (1 << state)) != 0 ORDER BY ord DESC LIMIT ?3"));
  select.Bind(1, before).Bind(2, bits).Bind(3, limit);
  return ReadJobs(&select);
}

absl::StatusOr<std::vector<StoredJob>> JobStore::ListUnfinished() {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(SqliteStatement select,
                         database_->Prepare("SELECT ord, stop_grace, supervisor, job FROM jobs "
                                            "WHERE (?1 & (1 << state)) != 0 ORDER BY ord"));
  select.Bind(1, UnfinishedStates());
  return ReadJobs(&select);
}

absl::StatusOr<std::map<Job::State, int64_t>> JobStore::CountByState() {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(SqliteStatement select,
                         database_->Prepare("SELECT state, COUNT(*) FROM jobs GROUP BY state"));
  std::map<Job::State, int64_t> counts;
  while (true) {
    ACCEL_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return counts;
    counts[static_cast<Job::State>(select.Int64(0))] = select.Int64(1);
  }
}

absl::Status JobStore::AddAudit(const AuditEntry& entry) {
  return Write(nullptr, [&](SqliteDatabase* database) -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement insert,
        database->Prepare("INSERT INTO audit (time_us, peer, method, resource, outcome) "
                          "VALUES (?, ?, ?, ?, ?)"));
    return insert.Bind(1, absl::ToUnixMicros(entry.time))
        .BindText(2, entry.peer)
        .BindText(3, entry.method)
        .BindText(4, entry.resource)
        .BindText(5, entry.outcome)
        .Run();
  });
}

absl::StatusOr<std::vector<AuditEntry>> JobStore::ReadAudit(int limit) {
  absl::MutexLock lock(&mutex_);
  ACCEL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT time_us, peer, method, resource, outcome FROM audit "
                         "ORDER BY number DESC LIMIT ?"));
  select.Bind(1, limit);
  std::vector<AuditEntry> entries;
  while (true) {
    ACCEL_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return entries;
    entries.push_back({absl::FromUnixMicros(select.Int64(0)), std::string(select.Text(1)),
                       std::string(select.Text(2)), std::string(select.Text(3)),
                       std::string(select.Text(4))});
  }
}

absl::Status JobStore::Prune(absl::Time now) {
  return Write(nullptr, [&](SqliteDatabase* database) -> absl::Status {
    ACCEL_ASSIGN_OR_RETURN(SqliteStatement answers,
                           database->Prepare("DELETE FROM answers WHERE time_us < ?"));
    ACCEL_RETURN_IF_ERROR(answers.Bind(1, absl::ToUnixMicros(now - kAnswersKept)).Run());
    ACCEL_ASSIGN_OR_RETURN(
        SqliteStatement audit,
        database->Prepare("DELETE FROM audit WHERE number <= (SELECT MAX(number) FROM audit) - ?"));
    return audit.Bind(1, kAuditLinesKept).Run();
  });
}

}  // namespace accel::daemon
