// Stops, checkpoints, the control socket and the supervisor's own death: the real accel-supervisor
// with fake workers.

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

using accel::v1::EventRecord;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using JobControlTest = JobTest;

TEST_F(JobControlTest, StopEndsAllRanksAtOneStep) {
  Start(3, {{"all", "ready;steps_until_cut;finish"}});
  auto channel = Connect();
  Await(*channel, [](const Status& s) { return s.progress().step() >= 5; });
  SendStop(*channel, 60);
  AwaitState(*channel, Job::STOPPING);
  const Status status = AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_EQ(RecordedStatus().SerializeAsString(), status.SerializeAsString());
  EXPECT_FALSE(status.has_failure());
  EXPECT_THAT(States(),
              ElementsAre(Job::QUEUED, Job::STARTING, Job::RUNNING, Job::STOPPING, Job::CANCELLED));
  ExpectNoWorkers(status);
  // Every step was reported by all ranks, so the last row is the step that all of them stopped at.
  EXPECT_EQ(Metrics().back().step(), status.progress().step());
}

TEST_F(JobControlTest, StopBeforeAnyRankIsReady) {
  MakeFifo("never");
  Start(2, {{"all", "wait:never"}});
  auto channel = Connect();
  AwaitWorkers(*channel);
  const absl::Time asked = absl::Now();
  SendStop(*channel, 0);
  const Status status = AwaitState(*channel, Job::CANCELLED);
  EXPECT_LT(absl::Now() - asked, absl::Seconds(5));
  EXPECT_EQ(WaitForExit(), 0);
  ExpectNoWorkers(status);
  EXPECT_THAT(States(), ElementsAre(Job::QUEUED, Job::STARTING, Job::STOPPING, Job::CANCELLED));
}

TEST_F(JobControlTest, WorkersThatIgnoreAStopAreKilledAfterItsGrace) {
  Start(2, {{"all", "ready;step:1;deaf;hang"}});
  auto channel = Connect();
  AwaitState(*channel, Job::RUNNING);
  SendStop(*channel, 3600);
  AwaitState(*channel, Job::STOPPING);
  // A shorter grace takes the place of the first one.
  SendStop(*channel, 0.05);
  const Status status = AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_FALSE(status.has_failure());
  EXPECT_FALSE(status.attempts(0).has_failure());
  ExpectNoWorkers(status);
}

TEST_F(JobControlTest, JobThatFinishesBeforeTheStopTakesEffectSucceeds) {
  MakeFifo("stopping");
  Start(1, {{"all", "ready;step:3;wait:stopping;finish"}});
  auto channel = Connect();
  AwaitState(*channel, Job::RUNNING);
  SendStop(*channel, 60);
  AwaitState(*channel, Job::STOPPING);
  const Fd release(open((dir() / "stopping").c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(AwaitState(*channel, Job::SUCCEEDED).state(), Job::SUCCEEDED);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_THAT(States(),
              ElementsAre(Job::QUEUED, Job::STARTING, Job::RUNNING, Job::STOPPING, Job::SUCCEEDED));
}

TEST_F(JobControlTest, FailureWhileStoppingIsACancelledJobWithAFailedAttempt) {
  MakeFifo("stopping");
  Start(1, {{"all", "ready;step:3;wait:stopping;exit:5"}});
  auto channel = Connect();
  AwaitState(*channel, Job::RUNNING);
  SendStop(*channel, 60);
  AwaitState(*channel, Job::STOPPING);
  const Fd release(open((dir() / "stopping").c_str(), O_WRONLY | O_CLOEXEC));
  const Status status = AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(status.attempts(0).failure().exit_code(), 5);
  EXPECT_FALSE(status.has_failure());
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, StopAfterAFailureChangesNothing) {
  Start(2, {{"rank0", "ready;step:1;deaf;hang"}, {"rank1", "ready;step:1;exit:3"}});
  auto channel = Connect();
  AwaitState(*channel, Job::RUNNING);
  // Rank 1 has failed; rank 0 keeps the job from its end for the close grace.
  Await(*channel, [this](const Status&) {
    return Log().find("rank 1 exited with code 3") != std::string::npos;
  });
  SendStop(*channel, 0);
  EXPECT_EQ(AwaitState(*channel, Job::FAILED).failure().exit_code(), 3);
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, CheckpointOnRequest) {
  launch_.mutable_job()->mutable_resolved_accelerator()->mutable_project_config()->set_iteration(7);
  Start(2, {{"all", "ready;steps_until_cut;finish"}});
  auto channel = Connect();
  Await(*channel, [](const Status& s) { return s.progress().step() >= 2; });
  SendCheckpoint(*channel);
  Await(*channel, [this](const Status&) { return Reader()->ListCheckpoints()->size() == 1; });
  SendStop(*channel, 60);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_EQ(Reader()->ListCheckpoints()->front().name(), "jobs/test/checkpoints/7");
}

TEST_F(JobControlTest, CheckpointsAreNumberedAfterThoseThatExist) {
  std::filesystem::create_directories(dir() / "checkpoints" / "11");
  std::filesystem::create_directories(dir() / "checkpoints" / ".20.incomplete");
  Start(1, {{"all", "ready;steps_until_cut;finish"}});
  auto channel = Connect();
  Await(*channel, [](const Status& s) { return s.progress().step() >= 1; });
  SendCheckpoint(*channel);
  Await(*channel, [this](const Status&) { return Reader()->ListCheckpoints()->size() == 1; });
  SendStop(*channel, 60);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_EQ(Reader()->ListCheckpoints()->front().name(), "jobs/test/checkpoints/12");
}

TEST_F(JobControlTest, CheckpointWhileStartingIsNotedAndLeftOut) {
  MakeFifo("go");
  Start(1, {{"all", "wait:go;ready;step:2;finish"}});
  auto channel = Connect();
  AwaitWorkers(*channel);
  SendCheckpoint(*channel);
  const Fd release(open((dir() / "go").c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_THAT(*Reader()->ListCheckpoints(), SizeIs(0));
}

TEST_F(JobControlTest, TermStopsTheJobInOrder) {
  Start(2, {{"all", "ready;steps_until_cut;finish"}});
  auto channel = Connect();
  Await(*channel, [](const Status& s) { return s.progress().step() >= 1; });
  kill(supervisor_, SIGHUP);
  kill(supervisor_, SIGINT);
  kill(supervisor_, SIGTERM);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, KilledSupervisorLeavesNoWorker) {
  MakeFifo("never");
  MakeFifo("deaf");
  Start(3, {{"rank0", "ready;steps_until_cut"},
            {"rank1", "wait:never"},
            {"rank2", "deaf;notify:deaf;hang"}});
  auto channel = Connect();
  const std::vector<Fd> handles = Handles(AwaitWorkers(*channel));
  const Fd met(open((dir() / "deaf").c_str(), O_RDONLY | O_CLOEXEC));
  kill(supervisor_, SIGKILL);
  EXPECT_EQ(WaitForExit(), -SIGKILL);
  for (const Fd& handle : handles) {
    pollfd poll_fd{handle.get(), POLLIN, 0};
    EXPECT_EQ(poll(&poll_fd, 1, 20000), 1);
  }
}

TEST_F(JobControlTest, SecondSupervisorIsRefused) {
  MakeFifo("never");
  Start(1, {{"all", "wait:never"}});
  auto channel = Connect();
  AwaitWorkers(*channel);
  const pid_t first = supervisor_;
  StartSupervisor();
  EXPECT_EQ(WaitForExit(), 1);
  supervisor_ = first;
  EXPECT_THAT(Log(), HasSubstr("another supervisor runs the job"));
  SendStop(*Connect(), 0);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, StaleSocketIsReplacedAndTheNewOneIsPrivate) {
  MakeFifo("never");
  ASSERT_TRUE(FileSystem::Real().WriteDurably(dir() / "control.sock", "stale").ok());
  Start(1, {{"all", "wait:never"}});
  auto channel = Connect();
  AwaitWorkers(*channel);
  struct stat info;
  ASSERT_EQ(stat((dir() / "control.sock").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  SendStop(*channel, 0);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, MalformedCommandEndsTheConnectionOnly) {
  MakeFifo("never");
  Start(1, {{"all", "wait:never"}});
  auto channel = Connect();
  AwaitWorkers(*channel);
  auto bad = Connect();
  ASSERT_EQ(send(bad->fd(), "\xff\xff\xff\xff", 4, MSG_NOSIGNAL), 4);
  accel::internal::v1::FromSupervisor message;
  absl::Status status;
  while (status.ok()) status = bad->Receive(&message);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  SendStop(*channel, 0);
  AwaitState(*channel, Job::CANCELLED);
  EXPECT_EQ(WaitForExit(), 0);
}

TEST_F(JobControlTest, ClientThatDoesNotReadDoesNotHoldUpTheJob) {
  Start(1, {{"all", "ready;print:100000;step:500;finish"}});
  auto idle = Connect();
  EXPECT_EQ(WaitForExit(), 0);
  EXPECT_EQ(RecordedStatus().state(), Job::SUCCEEDED);
}

TEST_F(JobControlTest, LongFolderNames) {
  // Longer than a socket's path may be.
  const std::filesystem::path deep = dir() / std::string(100, 'a') / std::string(100, 'b');
  std::filesystem::create_directories(deep);
  WriteLaunch(1, {{"all", "ready;step:1;finish"}});
  std::filesystem::rename(dir() / "launch.pb", deep / "launch.pb");
  auto pid = ProcessLauncher::Real().Spawn({.argv = {ACCEL_SUPERVISOR, "--job_dir", deep.string()},
                                            .environment = {},
                                            .descriptors = {},
                                            .new_session = true});
  ASSERT_TRUE(pid.ok());
  supervisor_ = *pid;
  EXPECT_EQ(WaitForExit(), 0);
  auto reader = record::Reader::Open(deep / "job.db");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->ReadStatus()->state(), Job::SUCCEEDED);
}

}  // namespace
}  // namespace accel::supervisor
