#include "server/supervisor/job_record.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/supervisor/memory_writer.h"

namespace accel::supervisor {
namespace {

using accel::v1::Job;
using accel::v1::LogRecord;
using testing::ElementsAre;
using testing::IsEmpty;

class JobRecordTest : public testing::Test {
 protected:
  static accel::internal::v1::JobStatus Queued() {
    accel::internal::v1::JobStatus status;
    status.set_state(Job::QUEUED);
    return status;
  }

  void AddLine(std::string text) {
    record_.AddLine(0, LogRecord::STDOUT, std::move(text), /*truncated=*/false);
  }

  EventLoop loop_;
  MemoryWriter::Contents contents_;
  int commits_ = 0;
  JobRecord record_{loop_, Clock::Real(), std::make_unique<MemoryWriter>(&contents_), Queued(),
                    [this] {
                      ++commits_;
                      loop_.Stop();
                    }};
};

TEST_F(JobRecordTest, RowsAreCommittedTogetherAfterTheInterval) {
  AddLine("a");
  AddLine("b");
  EXPECT_THAT(contents_.rows, IsEmpty());
  loop_.Run();
  EXPECT_EQ(commits_, 1);
  EXPECT_THAT(contents_.rows, ElementsAre("log a", "log b"));
}

TEST_F(JobRecordTest, ChangeOfStateIsCommittedAtOnceWithWhatCameBefore) {
  AddLine("a");
  record_.ChangeState(Job::STARTING);
  EXPECT_EQ(commits_, 1);
  EXPECT_THAT(contents_.rows, ElementsAre("log a", "event state QUEUED -> STARTING", "status 2"));
  EXPECT_EQ(record_.Committed().status().state(), Job::STARTING);
}

TEST_F(JobRecordTest, FullDiskIsTriedAgainUntilThereIsRoom) {
  contents_.full = true;
  record_.ChangeState(Job::STARTING);
  EXPECT_EQ(record_.state(), Job::STARTING);
  EXPECT_EQ(record_.Committed().status().state(), Job::STATE_UNSPECIFIED);
  AddLine("a");
  EXPECT_FALSE(record_.Commit());
  EXPECT_EQ(commits_, 0);
  // Room comes back while the retry is waited for.
  loop_.Post([this] { contents_.full = false; });
  loop_.Run();
  EXPECT_EQ(commits_, 1);
  EXPECT_THAT(contents_.rows, ElementsAre("event state QUEUED -> STARTING", "log a", "status 2"));
  EXPECT_EQ(record_.Committed().status().state(), Job::STARTING);
}

TEST_F(JobRecordTest, WarningsAreCountedBySubject) {
  record_.AddWarning("loss", "loss is nan");
  record_.AddWarning("data", "few rows");
  record_.AddWarning("loss", "loss is nan");
  EXPECT_TRUE(record_.Commit());
  EXPECT_THAT(contents_.rows, ElementsAre("warning loss 1", "warning data 1", "warning loss 2"));
}

TEST_F(JobRecordTest, EndKeepsTheFailureOfAFailedJobOnly) {
  accel::v1::Failure failure;
  failure.set_message("rank 0 exited with code 1");
  record_.EndJob(Job::CANCELLED, failure);
  EXPECT_FALSE(record_.status().has_failure());
  EXPECT_GT(record_.status().end_time_us(), 0);
  record_.EndJob(Job::FAILED, failure);
  EXPECT_EQ(record_.status().failure().message(), failure.message());
}

}  // namespace
}  // namespace accel::supervisor
