// How jobs end: the real accel-supervisor with fake workers.

#include "gmock/gmock.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

using accel::v1::EventRecord;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class JobEndTest : public JobTest {
 protected:
  Failure RunToFailure(int ranks, const std::map<std::string, std::string>& labels) {
    const Status status = RunToEnd(ranks, labels);
    EXPECT_EQ(status.state(), Job::FAILED) << status.ShortDebugString() << Log();
    EXPECT_GT(status.end_time_us(), 0);
    EXPECT_EQ(status.attempts(0).failure().message(), status.failure().message());
    int events = 0;
    for (const EventRecord& event : Events()) {
      if (!event.has_failure()) continue;
      ++events;
      EXPECT_EQ(event.failure().SerializeAsString(), status.failure().SerializeAsString());
    }
    EXPECT_EQ(events, 1);
    return status.failure();
  }
};

TEST_F(JobEndTest, SucceedsWhenAllRanksFinish) {
  const Status status =
      RunToEnd(2, {{"rank0", "ready;print:2;step:3;checkpoint:1;checkpoint:2;warn;finish"},
                   {"rank1", "ready;step:3;checkpoint:1;checkpoint:2;finish"}});
  EXPECT_EQ(status.state(), Job::SUCCEEDED) << Log();
  EXPECT_FALSE(status.has_failure());
  EXPECT_EQ(status.progress().step(), 3);
  EXPECT_EQ(status.progress().total_steps(), 1000);
  EXPECT_EQ(status.progress().total_epochs(), 2);
  EXPECT_THAT(States(), ElementsAre(Job::QUEUED, Job::STARTING, Job::RUNNING, Job::SUCCEEDED));
  EXPECT_TRUE(status.attempts(0).has_end_time());

  const auto metrics = Metrics();
  ASSERT_THAT(metrics, SizeIs(3));
  EXPECT_EQ(metrics[2].step(), 3);
  EXPECT_EQ(metrics[2].attempt(), 1);
  EXPECT_FALSE(metrics[2].has_rank());
  EXPECT_DOUBLE_EQ(metrics[2].values().at("train/loss").number(), (3 * 1.0 + 1 * 2.0) / 4);
  EXPECT_DOUBLE_EQ(metrics[2].values().at("perf/samples_per_second").number(), 4 / 0.25);

  EXPECT_THAT(Lines(0, LogRecord::STDOUT), ElementsAre("line 1", "line 2"));

  const auto checkpoints = *Reader()->ListCheckpoints();
  ASSERT_THAT(checkpoints, SizeIs(1));  // the second one removed the first
  EXPECT_EQ(checkpoints[0].name(), "jobs/test/checkpoints/2");
  EXPECT_EQ(checkpoints[0].path(), (dir() / "checkpoints/2").string());
  ASSERT_EQ(checkpoints[0].files_size(), 1);
  EXPECT_EQ(checkpoints[0].files(0).sha256(), "abcd");

  int written = 0;
  int warnings = 0;
  int trainings = 0;
  for (const EventRecord& event : Events()) {
    if (event.has_checkpoint_written()) {
      ++written;
      EXPECT_DOUBLE_EQ(event.checkpoint_written().stall_seconds(), 1.5);
    }
    warnings += event.has_warning() ? 1 : 0;
    trainings += event.has_training_started() ? 1 : 0;
  }
  EXPECT_EQ(written, 2);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(trainings, 1);
  EXPECT_FALSE(std::filesystem::exists(dir() / "control.sock"));
}

TEST_F(JobEndTest, EarlyEndIsASuccessWithItsReason) {
  const Status status = RunToEnd(2, {{"all", "ready;step:3;finish_early"}});
  EXPECT_EQ(status.state(), Job::SUCCEEDED) << Log();
  EXPECT_EQ(status.early_stopped().step(), 3);
  std::vector<std::string> events;
  for (const EventRecord& event : Events()) {
    if (!event.has_early_stopped()) continue;
    events.push_back(event.message());
    EXPECT_EQ(event.early_stopped().metric(), "eval/loss");
  }
  EXPECT_THAT(events, ElementsAre("stopped early at step 3: eval/loss has reached 1 with 0.5"));
}

TEST_F(JobEndTest, SignalIsTheCauseOfTheRankThatDied) {
  const Failure failure =
      RunToFailure(2, {{"rank0", "ready;step:4;hang"}, {"rank1", "ready;step:4;signal:9"}});
  EXPECT_EQ(failure.cause(), Failure::SIGNAL);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_EQ(failure.signal(), 9);
  EXPECT_EQ(failure.step(), 5);
  EXPECT_EQ(failure.message(), "rank 1 exited on signal 9 at step 5");
  EXPECT_THAT(failure.later(), IsEmpty());
}

TEST_F(JobEndTest, DeathBeforeTheFirstStep) {
  const Failure failure = RunToFailure(1, {{"all", "signal:11"}});
  EXPECT_EQ(failure.message(), "rank 0 exited on signal 11 before the first step");
  EXPECT_FALSE(failure.has_step());
  EXPECT_THAT(States(), ElementsAre(Job::QUEUED, Job::STARTING, Job::FAILED));
}

TEST_F(JobEndTest, ExitCodeIsKept) {
  const Failure failure = RunToFailure(1, {{"all", "ready;step:2;exit:3"}});
  EXPECT_EQ(failure.cause(), Failure::EXIT);
  EXPECT_EQ(failure.exit_code(), 3);
  EXPECT_EQ(failure.message(), "rank 0 exited with code 3 at step 3");
}

TEST_F(JobEndTest, ExitWithoutAWordIsAFailureEvenWithCodeZero) {
  const Failure failure = RunToFailure(1, {{"all", "ready;step:2"}});
  EXPECT_EQ(failure.cause(), Failure::EXIT);
  EXPECT_EQ(failure.exit_code(), 0);
  EXPECT_EQ(failure.message(), "rank 0 exited with code 0 at step 3, before it had finished");
}

TEST_F(JobEndTest, FailureAfterFinishedIsAFailure) {
  const Failure failure = RunToFailure(1, {{"all", "ready;step:2;finish;exit:4"}});
  EXPECT_EQ(failure.message(), "rank 0 exited with code 4 at step 2, after it had finished");
}

TEST_F(JobEndTest, FailedCollectiveYieldsToTheRankThatDied) {
  MakeFifo("failed");
  const Failure failure =
      RunToFailure(2, {{"rank0", "ready;step:2;fail:COLLECTIVE;notify:failed;exit:1"},
                       {"rank1", "ready;step:2;wait:failed;signal:9"}});
  EXPECT_EQ(failure.cause(), Failure::SIGNAL);
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_THAT(failure.later(), ElementsAre("rank 0 failed at step 2: something broke"));
}

TEST_F(JobEndTest, FailedCollectiveIsTheCauseWhereThereIsNoOther) {
  const Failure failure = RunToFailure(
      2, {{"rank0", "ready;step:2;fail:COLLECTIVE;exit:1"}, {"rank1", "ready;step:2;hang"}});
  EXPECT_EQ(failure.cause(), Failure::COLLECTIVE);
  EXPECT_EQ(failure.rank(), 0);
  EXPECT_EQ(failure.message(),
            "rank 0 failed at step 2: something broke; no word from rank 1 at step 3");
}

TEST_F(JobEndTest, ReportedCauseIsKept) {
  const Failure failure = RunToFailure(1, {{"all", "fail:DATA;exit:1"}});
  EXPECT_EQ(failure.cause(), Failure::DATA);
  EXPECT_EQ(failure.message(), "rank 0 failed before the first step: something broke");
  EXPECT_FALSE(failure.has_exit_code());
}

TEST_F(JobEndTest, RankThatReportsAFailureAndHangsIsEnded) {
  EXPECT_EQ(RunToFailure(1, {{"all", "ready;step:1;fail:STORAGE;hang"}}).cause(), Failure::STORAGE);
}

TEST_F(JobEndTest, DeafWorkerIsKilled) {
  const Failure failure =
      RunToFailure(2, {{"rank0", "ready;deaf;step:1;hang"}, {"rank1", "ready;step:1;exit:3"}});
  EXPECT_EQ(failure.rank(), 1);
  EXPECT_EQ(failure.exit_code(), 3);
}

TEST_F(JobEndTest, MalformedMessageIsAFailure) {
  const Failure failure = RunToFailure(1, {{"all", "ready;garbage;hang"}});
  EXPECT_EQ(failure.cause(), Failure::INTERNAL);
  EXPECT_THAT(failure.message(), HasSubstr("malformed"));
}

TEST_F(JobEndTest, DeathWithinAMessageIsADeath) {
  const Failure failure = RunToFailure(1, {{"all", "ready;torn;signal:9"}});
  EXPECT_EQ(failure.cause(), Failure::SIGNAL);
}

TEST_F(JobEndTest, EveryLineIsKept) {
  const Status status = RunToEnd(1, {{"all", "ready;print:100000;step:1;finish"}});
  EXPECT_EQ(status.state(), Job::SUCCEEDED);
  const std::vector<std::string> lines = Lines(0, LogRecord::STDOUT);
  ASSERT_THAT(lines, SizeIs(100000));
  for (size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines[i], absl::StrCat("line ", i + 1));
}

TEST_F(JobEndTest, LinesOfAProcessThatDiedAreKept) {
  RunToFailure(1, {{"all", "print:1000;signal:6"}});
  EXPECT_THAT(Lines(0, LogRecord::STDOUT), SizeIs(1000));
}

TEST_F(JobEndTest, WorkersGetTheirEnvironmentAndNothingElse) {
  launch_.mutable_job()->mutable_spec()->mutable_loop()->set_num_cpu_threads_per_process(3);
  RunToEnd(1, {{"all", "ready;environment;finish"}});
  EXPECT_THAT(Lines(0, LogRecord::STDOUT), ElementsAre("ACCEL_TEST=yes", "OMP_NUM_THREADS=3"));
}

TEST_F(JobEndTest, MissingWorkerProgramFailsTheJob) {
  launch_.set_worker_path("/nonexistent/accel-worker");
  const Status status = RunToEnd(2, {});
  EXPECT_EQ(status.state(), Job::FAILED);
  EXPECT_EQ(status.failure().cause(), Failure::INTERNAL);
  EXPECT_THAT(status.failure().message(), AllOf(StartsWith("cannot start the workers"),
                                                HasSubstr("/nonexistent/accel-worker")));
  EXPECT_EQ(status.attempts_size(), 0);
}

TEST_F(JobEndTest, EndedJobIsNotRunAgain) {
  RunToEnd(1, {{"all", "ready;finish"}});
  const size_t events = Events().size();
  StartSupervisor();
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_THAT(Log(), HasSubstr("the job has ended: its state is SUCCEEDED"));
  EXPECT_THAT(Events(), SizeIs(events));
}

TEST_F(JobEndTest, MissingLaunchFileIsRefused) {
  StartSupervisor();
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_THAT(Log(), HasSubstr("launch.pb"));
}

TEST_F(JobEndTest, TrackersGetEveryRow) {
  launch_.mutable_job()->mutable_spec()->mutable_tracking()->add_trackers()->mutable_tensorboard();
  const Status status = RunToEnd(1, {{"all", "ready;step:50;finish"}});
  EXPECT_EQ(status.state(), Job::SUCCEEDED);
  size_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir() / "trackers")) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_GT(bytes, 50u * 40);
  for (const EventRecord& event : Events()) EXPECT_FALSE(event.has_warning()) << event.message();
}

TEST_F(JobEndTest, RowsAreNumberedWithoutGapsAndTheEndComesLast) {
  RunToEnd(2, {{"all", "ready;print:100;step:10;finish"}});
  std::map<int64_t, int> seen;
  for (const auto& row : Metrics()) ++seen[row.sequence()];
  for (const auto& row : Logs()) ++seen[row.sequence()];
  for (const auto& row : Events()) ++seen[row.sequence()];
  EXPECT_EQ(seen.begin()->first, 1);
  EXPECT_EQ(seen.rbegin()->first, static_cast<int64_t>(seen.size()));
  EXPECT_EQ(Events().back().sequence(), seen.rbegin()->first);
  EXPECT_EQ(Events().back().state_changed().to(), Job::SUCCEEDED);
}

}  // namespace
}  // namespace accel::supervisor
