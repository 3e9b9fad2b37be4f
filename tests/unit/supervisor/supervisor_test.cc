// A supervisor in this process, where its times and surroundings are the test's.

#include "server/supervisor/supervisor.h"

#include "gmock/gmock.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

using accel::v1::EventRecord;
using accel::v1::Failure;
using accel::v1::Job;
using testing::HasSubstr;

class SupervisorTest : public JobTest {
 protected:
  SupervisorTest() { options_.job_dir = dir(); }

  Status Run(int ranks, const std::map<std::string, std::string>& labels) {
    WriteLaunch(ranks, labels);
    auto supervisor = Supervisor::Open(loop_, options_);
    EXPECT_TRUE(supervisor.ok()) << supervisor.status();
    (*supervisor)->Start();
    loop_.Run();
    EXPECT_TRUE((*supervisor)->ended());
    ExpectNoWorkers(RecordedStatus());
    return RecordedStatus();
  }

  EventLoop loop_;
  SupervisorOptions options_;
};

TEST_F(SupervisorTest, RankThatFinishedAndDoesNotExitIsKilledWithAWarning) {
  options_.attempt.exit_grace = absl::Milliseconds(20);
  EXPECT_EQ(Run(1, {{"all", "ready;step:2;finish;deaf;hang"}}).state(), Job::SUCCEEDED);
  bool warned = false;
  for (const EventRecord& event : Events()) {
    if (!event.has_warning()) continue;
    warned = true;
    EXPECT_EQ(event.warning().subject(), "workers");
    EXPECT_THAT(event.message(), HasSubstr("rank 0 did not exit within 20ms"));
  }
  EXPECT_TRUE(warned);
}

TEST_F(SupervisorTest, KillOfTheOutOfMemoryKillerIsToldFromOthers) {
  // The worker's own file, which the fake kernel counts in before the kill.
  options_.attempt.memory_events = dir() / "memory.events";
  ASSERT_TRUE(FileSystem::Real().WriteDurably(options_.attempt.memory_events, "oom_kill 0\n").ok());
  MakeFifo("counted");
  WriteLaunch(1, {{"all", "ready;step:1;wait:counted;signal:9"}});
  auto supervisor = Supervisor::Open(loop_, options_);
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  (*supervisor)->Start();
  ASSERT_TRUE(FileSystem::Real().WriteDurably(options_.attempt.memory_events, "oom_kill 1\n").ok());
  const Fd counted(open((dir() / "counted").c_str(), O_RDWR | O_CLOEXEC));
  loop_.Run();
  EXPECT_EQ(RecordedStatus().failure().cause(), Failure::OUT_OF_MEMORY);
}

TEST_F(SupervisorTest, ClosingGraceEndsInAKill) {
  options_.attempt.settle = absl::ZeroDuration();
  options_.attempt.close_grace = absl::ZeroDuration();
  const Status status = Run(2, {{"rank0", "ready;deaf;hang"}, {"rank1", "ready;step:1;exit:3"}});
  EXPECT_EQ(status.failure().rank(), 1);
}

TEST_F(SupervisorTest, ProcessThatHoldsThePipesDoesNotHoldUpTheJob) {
  EXPECT_EQ(Run(1, {{"all", "ready;child;print:3;step:1;finish"}}).state(), Job::SUCCEEDED);
  EXPECT_EQ(Lines(0, accel::v1::LogRecord::STDOUT).size(), 4u);
  // The child printed its process id.
  const pid_t child = std::stoi(Lines(0, accel::v1::LogRecord::STDOUT)[0]);
  EXPECT_EQ(kill(child, SIGKILL), 0);
}

TEST_F(SupervisorTest, LaterSupervisorTakesUpTheRecordWithTheNextAttempt) {
  accel::internal::v1::JobStatus left;
  left.set_state(Job::RUNNING);
  left.add_attempts()->set_number(1);
  {
    auto writer = *record::Writer::Open(dir() / "job.db");
    ASSERT_TRUE(writer->SetStatus(left).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  const Status status = Run(1, {{"all", "ready;step:1;finish"}});
  ASSERT_EQ(status.attempts_size(), 2);
  EXPECT_EQ(status.attempts(1).number(), 2);
  EXPECT_EQ(Metrics().back().attempt(), 2);
}

}  // namespace
}  // namespace accel::supervisor
