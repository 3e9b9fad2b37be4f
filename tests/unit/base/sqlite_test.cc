#include "core/base/sqlite.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SqliteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_sqlite_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<SqliteDatabase> OpenOrDie(const SqliteOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<SqliteDatabase>> database =
        SqliteDatabase::Open(folder_ / "test.db", options);
    EXPECT_TRUE(database.ok()) << database.status();
    return *std::move(database);
  }

  static int64_t QueryInt(SqliteDatabase* database, absl::string_view sql) {
    absl::StatusOr<SqliteStatement> statement = database->Prepare(sql);
    EXPECT_TRUE(statement.ok()) << statement.status();
    EXPECT_TRUE(*statement->Step());
    return statement->Int64(0);
  }

  fs::path folder_;
};

TEST_F(SqliteTest, OpensDurablyAndPrivately) {
  auto database = OpenOrDie();
  absl::StatusOr<SqliteStatement> mode = database->Prepare("PRAGMA journal_mode");
  ASSERT_TRUE(mode.ok());
  ASSERT_TRUE(*mode->Step());
  EXPECT_EQ(mode->Text(0), "wal");
  EXPECT_EQ(QueryInt(database.get(), "PRAGMA synchronous"), 2);
  EXPECT_EQ(QueryInt(database.get(), "PRAGMA foreign_keys"), 1);
  struct stat status;
  ASSERT_EQ(stat((folder_ / "test.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SqliteTest, RoundTripsEveryType) {
  auto database = OpenOrDie();
  ASSERT_TRUE(database->Exec("CREATE TABLE t (i INTEGER, d REAL, s TEXT, b BLOB, n INTEGER)").ok());
  const std::string bytes("a\0b", 3);
  {
    auto insert = database->Prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?)");
    ASSERT_TRUE(insert.ok());
    insert->Bind(1, INT64_MIN).Bind(2, 0.5).BindText(3, "zwölf").BindBlob(4, bytes).BindNull(5);
    ASSERT_TRUE(insert->Run().ok());
    EXPECT_EQ(database->Changes(), 1);
    EXPECT_EQ(database->LastInsertId(), 1);
    insert->Reset();
    insert->Bind(1, true).Bind(2, 1.0).BindText(3, "").BindBlob(4, absl::string_view());
    ASSERT_TRUE(insert->Run().ok());
  }
  auto select = database->Prepare("SELECT * FROM t ORDER BY rowid");
  ASSERT_TRUE(select.ok());
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Int64(0), INT64_MIN);
  EXPECT_EQ(select->Double(1), 0.5);
  EXPECT_EQ(select->Text(2), "zwölf");
  EXPECT_EQ(select->Blob(3), bytes);
  EXPECT_TRUE(select->IsNull(4));
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Int64(0), 1);
  EXPECT_FALSE(select->IsNull(2));
  EXPECT_FALSE(select->IsNull(3));
  EXPECT_TRUE(select->IsNull(4));
  EXPECT_FALSE(*select->Step());
}

TEST_F(SqliteTest, TwoStatementsOfOneTextAtOnce) {
  auto database = OpenOrDie();
  ASSERT_TRUE(database->Exec("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1), (2)").ok());
  constexpr absl::string_view kSql = "SELECT i FROM t ORDER BY i";
  for (int round = 0; round < 3; ++round) {
    auto first = database->Prepare(kSql);
    auto second = database->Prepare(kSql);
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_TRUE(*first->Step());
    ASSERT_TRUE(*first->Step());
    ASSERT_TRUE(*second->Step());
    EXPECT_EQ(first->Int64(0), 2);
    EXPECT_EQ(second->Int64(0), 1);
  }
}

TEST_F(SqliteTest, ErrorsHaveTheirCodes) {
  auto database = OpenOrDie();
  ASSERT_TRUE(database
                  ->Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, u TEXT UNIQUE, n TEXT NOT NULL);"
                         "CREATE TABLE c (p INTEGER REFERENCES t (i))")
                  .ok());
  ASSERT_TRUE(database->Exec("INSERT INTO t VALUES (1, 'a', 'x')").ok());
  EXPECT_EQ(database->Exec("INSERT INTO t VALUES (1, 'b', 'x')").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(database->Exec("INSERT INTO t VALUES (2, 'a', 'x')").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(database->Exec("INSERT INTO t VALUES (3, 'c', NULL)").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(database->Exec("INSERT INTO c VALUES (9)").code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::Status wrong = database->Exec("SELEKT 1");
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(wrong.message(), HasSubstr("SELEKT"));
  EXPECT_THAT(wrong.message(), HasSubstr("test.db"));
  auto statement = database->Prepare("SELECT ?");
  ASSERT_TRUE(statement.ok());
  EXPECT_EQ(statement->Bind(7, 1).Step().status().code(), absl::StatusCode::kInternal);
}

TEST_F(SqliteTest, FullDatabaseIsResourceExhaustedAndRolledBack) {
  auto database = OpenOrDie();
  ASSERT_TRUE(database->Exec("CREATE TABLE t (b BLOB); PRAGMA max_page_count=8").ok());
  {
    auto transaction = SqliteTransaction::Begin(database.get(), SqliteTransaction::Kind::kWrite);
    ASSERT_TRUE(transaction.ok());
    ASSERT_TRUE(database->Exec("INSERT INTO t VALUES ('small')").ok());
    EXPECT_EQ(database->Exec("INSERT INTO t VALUES (zeroblob(100000))").code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(QueryInt(database.get(), "SELECT count(*) FROM t"), 0);
  EXPECT_TRUE(database->Exec("INSERT INTO t VALUES ('small')").ok());
}

TEST_F(SqliteTest, LockedDatabaseIsUnavailable) {
  auto holder = OpenOrDie();
  ASSERT_TRUE(holder->Exec("CREATE TABLE t (i INTEGER)").ok());
  SqliteOptions options;
  options.busy_timeout = absl::ZeroDuration();
  auto other = OpenOrDie(options);
  auto held = SqliteTransaction::Begin(holder.get(), SqliteTransaction::Kind::kWrite);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(SqliteTransaction::Begin(other.get(), SqliteTransaction::Kind::kWrite).status().code(),
            absl::StatusCode::kUnavailable);
  ASSERT_TRUE(held->Commit().ok());
  EXPECT_FALSE(held->Commit().ok());
  EXPECT_TRUE(SqliteTransaction::Begin(other.get(), SqliteTransaction::Kind::kWrite).ok());
}

TEST_F(SqliteTest, ForeignFileIsDataLoss) {
  std::ofstream(folder_ / "test.db") << std::string(8192, 'x');
  EXPECT_EQ(SqliteDatabase::Open(folder_ / "test.db").status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteTest, MissingFileOrFolderIsNotFound) {
  SqliteOptions read_only;
  read_only.read_only = true;
  EXPECT_EQ(SqliteDatabase::Open(folder_ / "none.db", read_only).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(folder_ / "none.db"));
  EXPECT_EQ(SqliteDatabase::Open(folder_ / "none" / "test.db").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SqliteTest, ReadOnlyCannotWrite) {
  ASSERT_TRUE(OpenOrDie()->Exec("CREATE TABLE t (i INTEGER)").ok());
  SqliteOptions read_only;
  read_only.read_only = true;
  auto database = OpenOrDie(read_only);
  EXPECT_EQ(database->Exec("INSERT INTO t VALUES (1)").code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(SqliteTest, MigratesStepByStepAndRefusesNewer) {
  const char* const one[] = {"CREATE TABLE a (i INTEGER); INSERT INTO a VALUES (7)"};
  const char* const two[] = {one[0], "ALTER TABLE a ADD COLUMN j INTEGER DEFAULT 8"};
  const char* const broken[] = {one[0], two[1], "CREATE TABLE b (i INTEGER); CREATE TABLE a (x)"};
  auto database = OpenOrDie();
  EXPECT_EQ(*database->SchemaVersion(2), 0);
  ASSERT_TRUE(database->Migrate(one).ok());
  ASSERT_TRUE(database->Migrate(two).ok());
  ASSERT_TRUE(database->Migrate(two).ok());
  EXPECT_EQ(*database->SchemaVersion(2), 2);
  EXPECT_EQ(QueryInt(database.get(), "SELECT i + j FROM a"), 15);
  EXPECT_FALSE(database->Migrate(broken).ok());
  EXPECT_EQ(*database->SchemaVersion(2), 2);
  EXPECT_EQ(QueryInt(database.get(), "SELECT count(*) FROM sqlite_master WHERE name = 'b'"), 0);
  const absl::Status newer = database->Migrate(one);
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(newer.message(), HasSubstr("schema 2"));
}

}  // namespace
}  // namespace accel
