#include "server/supervisor/record_buffer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/supervisor/memory_writer.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::JobStatus;
using accel::v1::Checkpoint;
using accel::v1::EventRecord;
using accel::v1::Job;
using accel::v1::LogRecord;
using accel::v1::MetricRecord;
using testing::ElementsAre;

LogRecord Log(const std::string& text) {
  LogRecord record;
  record.set_text(text);
  return record;
}

MetricRecord Metric(int64_t step) {
  MetricRecord record;
  record.set_step(step);
  return record;
}

EventRecord Event(const std::string& message) {
  EventRecord record;
  record.set_message(message);
  return record;
}

JobStatus Status(Job::State state) {
  JobStatus status;
  status.set_state(state);
  return status;
}

class RecordBufferTest : public testing::Test {
 protected:
  MemoryWriter::Contents contents_;
  RecordBuffer buffer_{std::make_unique<MemoryWriter>(&contents_), 4000};
};

TEST_F(RecordBufferTest, CommitsAllInOrderOnce) {
  buffer_.Add(Log("a"));
  buffer_.Add(Metric(1));
  buffer_.Add(Event("b"));
  Checkpoint checkpoint;
  checkpoint.set_name("2");
  buffer_.AddCheckpoint(checkpoint);
  buffer_.RemoveCheckpoint("1");
  buffer_.SetStatus(Status(Job::STARTING));
  buffer_.SetStatus(Status(Job::RUNNING));
  EXPECT_TRUE(buffer_.dirty());
  ASSERT_TRUE(buffer_.Commit().ok());
  EXPECT_FALSE(buffer_.dirty());
  ASSERT_TRUE(buffer_.Commit().ok());
  EXPECT_THAT(contents_.rows,
              ElementsAre("log a", "metric 1", "event b", "add 2", "remove 1", "status 3"));
  EXPECT_EQ(buffer_.committed_status().state(), Job::RUNNING);
}

TEST_F(RecordBufferTest, KeepsWhatCannotBeCommitted) {
  contents_.full = true;
  buffer_.Add(Log("a"));
  buffer_.SetStatus(Status(Job::RUNNING));
  EXPECT_TRUE(absl::IsResourceExhausted(buffer_.Commit()));
  EXPECT_TRUE(buffer_.dirty());
  EXPECT_EQ(buffer_.committed_status().state(), Job::STATE_UNSPECIFIED);
  buffer_.Add(Log("b"));
  contents_.full = false;
  ASSERT_TRUE(buffer_.Commit().ok());
  EXPECT_THAT(contents_.rows, ElementsAre("log a", "log b", "status 3"));
}

TEST_F(RecordBufferTest, GivesUpOldLogsFirstAndSaysSo) {
  contents_.full = true;
  buffer_.Add(Event("first"));
  buffer_.Add(Metric(1));
  for (int i = 0; i < 10; ++i) {
    buffer_.Add(Log(absl::StrCat("l", i, std::string(996, 'x'))));
    EXPECT_FALSE(buffer_.Commit().ok());
  }
  contents_.full = false;
  ASSERT_TRUE(buffer_.Commit().ok());
  // A commit that fails says so in vain: the loss is noted once, with the rows.
  EXPECT_THAT(contents_.rows, testing::Contains("event first"));
  EXPECT_THAT(contents_.rows, testing::Contains("metric 1"));
  EXPECT_THAT(contents_.rows, testing::Contains("log l9xx"));
  EXPECT_THAT(contents_.rows, testing::Not(testing::Contains("log l0xx")));
  int64_t lost = 0;
  int64_t kept = 0;
  for (const std::string& row : contents_.rows) {
    int count = 0;
    if (sscanf(row.c_str(), "warning record %d", &count) == 1) lost += count;
    if (row.rfind("log", 0) == 0) ++kept;
  }
  EXPECT_EQ(lost + kept, 10);
}

TEST_F(RecordBufferTest, EventsAreNeverGivenUp) {
  contents_.full = true;
  for (int i = 0; i < 100; ++i) buffer_.Add(Event(std::string(100, 'e')));
  contents_.full = false;
  ASSERT_TRUE(buffer_.Commit().ok());
  EXPECT_EQ(contents_.rows.size(), 100u);
}

}  // namespace
}  // namespace accel::supervisor
