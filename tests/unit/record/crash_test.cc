#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "core/base/fd.h"
#include "core/record/reader.h"
#include "core/record/tracker_cursors.h"
#include "core/record/writer.h"
#include "gtest/gtest.h"

namespace accel::record {
namespace {

namespace fs = std::filesystem;

// Appends and commits until it is killed; tells each committed number through `acks`.
[[noreturn]] void WriteForever(const fs::path& path, int acks) {
  auto writer = Writer::Open(path);
  if (!writer.ok()) _exit(2);
  for (int64_t commit = 0;; ++commit) {
    for (int64_t row = 0; row <= commit % 7; ++row) {
      accel::v1::MetricRecord record;
      record.set_step(commit);
      (*record.mutable_values())["value"].set_text(std::string(500, 'v'));
      if (!(*writer)->Append(record).ok()) _exit(3);
    }
    accel::internal::v1::JobStatus status;
    status.set_end_time_us((*writer)->last_sequence() + commit % 7 + 1);
    if (!(*writer)->SetStatus(status).ok() || !(*writer)->Commit().ok()) _exit(4);
    const int64_t acknowledged = (*writer)->last_sequence();
    if (write(acks, &acknowledged, sizeof(acknowledged)) != sizeof(acknowledged)) _exit(5);
  }
}

// Numbers from 1 without gaps; returns the greatest.
int64_t CheckRows(const fs::path& path) {
  auto reader = Reader::Open(path);
  if (!reader.ok()) {
    EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound) << reader.status();
    return 0;
  }
  int64_t seen = 0;
  while (true) {
    auto rows = (*reader)->ReadMetrics(seen);
    EXPECT_TRUE(rows.ok()) << rows.status();
    if (!rows.ok() || rows->records.empty()) break;
    for (const accel::v1::MetricRecord& record : rows->records) {
      EXPECT_EQ(record.sequence(), ++seen);
      EXPECT_EQ(record.values().at("value").text().size(), 500u);
    }
  }
  EXPECT_EQ(*(*reader)->LastSequence(), seen);
  if (seen > 0) {
    EXPECT_EQ((*reader)->ReadStatus()->end_time_us(), seen);
  }
  return seen;
}

TEST(RecordCrashTest, KilledWriterLosesNothingThatWasCommitted) {
  std::string pattern = (fs::temp_directory_path() / "accel_crash_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path path = fs::path(pattern) / "job.db";
  std::minstd_rand random(20240229);
  int64_t acknowledged = 0;
  for (int round = 0; round < 40; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    Fd receive(ends[0]);
    Fd send(ends[1]);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForever(path, send.get());
    send.Reset();
    // Some rounds end while the record is opened and recovered, most of them amid commits.
    const auto acks = static_cast<int>(random() % 30);
    for (int i = 0; i < acks; ++i) {
      ASSERT_EQ(read(receive.get(), &acknowledged, sizeof(acknowledged)),
                static_cast<ssize_t>(sizeof(acknowledged)));
    }
    pollfd nothing{.fd = -1, .events = 0, .revents = 0};
    poll(&nothing, 1, static_cast<int>(random() % 5));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "child ended with " << status;
    int64_t late = 0;
    while (read(receive.get(), &late, sizeof(late)) == static_cast<ssize_t>(sizeof(late))) {
      acknowledged = late;
    }
    const int64_t seen = CheckRows(path);
    ASSERT_GE(seen, acknowledged);
    ASSERT_LE(seen, acknowledged + 7);
    acknowledged = seen;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(acknowledged, 100);
  fs::remove_all(pattern);
}

// Another process follows while this one writes: each read is one snapshot, so a follower that
// always goes on at next_after sees every row once.
TEST(RecordCrashTest, FollowerInAnotherProcessSeesEveryRow) {
  std::string pattern = (fs::temp_directory_path() / "accel_follow_XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path path = fs::path(pattern) / "job.db";
  constexpr int kCommits = 300;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Starts before the record exists.
    absl::StatusOr<std::unique_ptr<Reader>> reader = Reader::Open(path);
    while (reader.status().code() == absl::StatusCode::kNotFound) reader = Reader::Open(path);
    if (!reader.ok()) _exit(2);
    int64_t after = 0;
    int64_t metrics = 0;
    while (metrics < kCommits) {
      auto rows = (*reader)->ReadMetrics(after, {.rows = 16});
      if (!rows.ok() || rows->next_after < after) _exit(3);
      for (const accel::v1::MetricRecord& record : rows->records) {
        if (record.step() != metrics++) _exit(4);
      }
      after = rows->next_after;
    }
    _exit(0);
  }
  auto writer = Writer::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (int i = 0; i < kCommits; ++i) {
    accel::v1::MetricRecord record;
    record.set_step(i);
    ASSERT_TRUE((*writer)->Append(record).ok());
    ASSERT_TRUE((*writer)->Append(accel::v1::LogRecord()).ok());
    const absl::Status committed = (*writer)->Commit();
    ASSERT_TRUE(committed.ok()) << committed;
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  fs::remove_all(pattern);
}

}  // namespace
}  // namespace accel::record
