#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using fake::BatchMessage;
using fake::EndMessage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::EventRecord Event(int64_t sequence, v1::Job::State to) {
  v1::EventRecord event;
  event.set_sequence(sequence);
  event.mutable_time()->set_seconds(1935489600 + sequence);
  event.mutable_state_changed()->set_to(to);
  event.set_message("state -> " + v1::Job::State_Name(to));
  return event;
}

v1::MetricRecord Metric(int64_t sequence, int64_t step, double loss) {
  v1::MetricRecord record;
  record.set_sequence(sequence);
  record.set_step(step);
  record.mutable_time()->set_seconds(1935489600 + sequence);
  (*record.mutable_values())["train/loss"].set_number(loss);
  return record;
}

v1::LogRecord Log(int64_t sequence, const std::string& text) {
  v1::LogRecord record;
  record.set_sequence(sequence);
  record.set_rank(1);
  record.set_text(text);
  return record;
}

class StreamCommandsTest : public NodeCliTest {
 protected:
  // Scripts a job that trains and ends in `state`.
  void ScriptJob(v1::Job::State state) {
    node_.job.set_name("jobs/a");
    node_.job.set_state(state);
    node_.job.mutable_start_time()->set_seconds(100);
    node_.job.mutable_end_time()->set_seconds(104);
    node_.job.mutable_progress()->set_step(2);
    node_.event_scripts = {{{BatchMessage<v1::StreamEventsResponse, v1::EventRecord>(
                                 {Event(1, v1::Job::RUNNING), Event(4, state)}),
                             EndMessage<v1::StreamEventsResponse>(4)}}};
    node_.metric_scripts = {{{BatchMessage<v1::StreamMetricsResponse, v1::MetricRecord>(
                                  {Metric(2, 1, 0.5), Metric(3, 2, 0.25)}),
                              EndMessage<v1::StreamMetricsResponse>(4)}}};
  }

  std::string file_ = WriteFile("job.yaml", "loop: {num_epochs: 3}\n");
};

TEST_F(StreamCommandsTest, WatchEndsWithTheOutcome) {
  ScriptJob(v1::Job::SUCCEEDED);
  const CliResult result = Run({"watch", "a"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out,
            "12:00:01.000  state -> RUNNING\n"
            "12:00:04.000  state -> SUCCEEDED\n"
            "jobs/a SUCCEEDED after 4.0s, 2 steps\n");
  EXPECT_TRUE(node_.event_requests.at(0).range().follow());

  ScriptJob(v1::Job::SUCCEEDED);
  node_.job.mutable_early_stopped()->set_reason("train/loss has reached 0.3 with 0.25");
  EXPECT_THAT(Run({"watch", "a"}).out,
              testing::EndsWith("jobs/a SUCCEEDED after 4.0s, 2 steps, stopped early: train/loss "
                                "has reached 0.3 with 0.25\n"));
  node_.job.clear_early_stopped();

  ScriptJob(v1::Job::FAILED);
  EXPECT_EQ(Run({"watch", "a"}).code, ExitCode::kJobFailed);
  ScriptJob(v1::Job::CANCELLED);
  EXPECT_EQ(Run({"watch", "a"}).code, ExitCode::kJobCancelled);
  ScriptJob(v1::Job::FAILED);
  EXPECT_EQ(Run({"watch", "a", "--no-follow", "--after", "1"}).code, ExitCode::kOk);
  EXPECT_FALSE(node_.event_requests.back().range().follow());
  EXPECT_EQ(node_.event_requests.back().range().after_sequence(), 1);
}

TEST_F(StreamCommandsTest, RowsAreLinesOfJson) {
  ScriptJob(v1::Job::SUCCEEDED);
  const CliResult result = Run({"metrics", "a", "-o", "json"});
  EXPECT_EQ(result.out,
            "{\"sequence\":\"2\",\"time\":\"2031-05-02T12:00:02Z\",\"step\":\"1\","
            "\"values\":{\"train/loss\":{\"number\":0.5}}}\n"
            "{\"sequence\":\"3\",\"time\":\"2031-05-02T12:00:03Z\",\"step\":\"2\","
            "\"values\":{\"train/loss\":{\"number\":0.25}}}\n");
}

TEST_F(StreamCommandsTest, MetricsAsTextAndCsv) {
  ScriptJob(v1::Job::SUCCEEDED);
  EXPECT_EQ(Run({"metrics", "a", "-f", "--key", "train/loss", "--key", "eval/loss"}).out,
            "step 1  train/loss 0.5\nstep 2  train/loss 0.25\n");
  EXPECT_THAT(node_.metric_requests.at(0).keys(), ElementsAre("train/loss", "eval/loss"));
  EXPECT_TRUE(node_.metric_requests.at(0).range().follow());
  ScriptJob(v1::Job::SUCCEEDED);
  EXPECT_EQ(Run({"metrics", "--csv", "a"}).out,
            "sequence,time,step,rank,key,value\n"
            "2,2031-05-02T12:00:02.000000Z,1,,train/loss,0.5\n"
            "3,2031-05-02T12:00:03.000000Z,2,,train/loss,0.25\n");
  node_.metric_scripts = {{{EndMessage<v1::StreamMetricsResponse>(0)}}};
  EXPECT_EQ(Run({"metrics", "--csv", "a"}).out, "sequence,time,step,rank,key,value\n");
}

TEST_F(StreamCommandsTest, LogsAreEscapedOnATerminalOnly) {
  const auto script = [] {
    return fake::StreamScript<v1::StreamLogsResponse>{
        {BatchMessage<v1::StreamLogsResponse, v1::LogRecord>({Log(1, "\x1b[2J hi")}),
         EndMessage<v1::StreamLogsResponse>(1)}};
  };
  node_.log_scripts = {script(), script()};
  EXPECT_EQ(Run({"logs", "a", "--rank", "1", "--rank", "0"}).out, "rank 1 | \x1b[2J hi\n");
  EXPECT_THAT(node_.log_requests.at(0).ranks(), ElementsAre(1, 0));
  terminal_ = true;
  EXPECT_EQ(Run({"logs", "a"}).out, "rank 1 | \\x1b[2J hi\n");
  EXPECT_EQ(Run({"logs", "a", "--rank", "-1"}).code, ExitCode::kInvalid);
}

TEST_F(StreamCommandsTest, InterruptionsAreToldAndTakenUpAgain) {
  ScriptJob(v1::Job::SUCCEEDED);
  node_.log_scripts = {{{BatchMessage<v1::StreamLogsResponse, v1::LogRecord>({Log(1, "one")})},
                        absl::UnavailableError("draining")},
                       {{BatchMessage<v1::StreamLogsResponse, v1::LogRecord>({Log(2, "two")}),
                         EndMessage<v1::StreamLogsResponse>(2)}}};
  const CliResult result = Run({"logs", "-f", "a"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out, "rank 1 | one\nrank 1 | two\n");
  EXPECT_EQ(result.err, "accelctl: connection lost after row 1, try 1 to resume in 0.1s\n");
}

TEST_F(StreamCommandsTest, RunFollowsToTheOutcome) {
  ScriptJob(v1::Job::SUCCEEDED);
  v1::Checkpoint& checkpoint = node_.checkpoints.emplace_back();
  checkpoint.set_name("jobs/a/checkpoints/0");
  checkpoint.set_step(2);
  checkpoint.set_path("/s/0");
  CliResult result = Run({"run", file_, "--id", "a"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out,
            "jobs/a SUCCEEDED after 4.0s, 2 steps\n"
            "newest checkpoint: jobs/a/checkpoints/0 (step 2, 0 B) in /s/0\n");
  EXPECT_THAT(result.err, StartsWith("accelctl: submitted jobs/a\n"));
  EXPECT_THAT(result.err, HasSubstr("state -> RUNNING\n"));
  EXPECT_THAT(result.err, HasSubstr("a: "));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("\r")));

  ScriptJob(v1::Job::FAILED);
  node_.job.mutable_failure()->set_message("rank 1 exited on signal 9 at step 2");
  result = Run({"run", file_, "--id", "a"});
  EXPECT_EQ(result.code, ExitCode::kJobFailed);
  EXPECT_THAT(
      result.out,
      HasSubstr("jobs/a FAILED after 4.0s, 2 steps: rank 1 exited on signal 9 at step 2\n"));
  EXPECT_THAT(result.err, HasSubstr("accelctl logs a"));

  ScriptJob(v1::Job::CANCELLED);
  result = Run({"run", file_, "--id", "a", "-o", "json"});
  EXPECT_EQ(result.code, ExitCode::kJobCancelled);
  EXPECT_THAT(result.out, StartsWith("{\n"));
}

TEST_F(StreamCommandsTest, RunDrawsABarOnATerminal) {
  ScriptJob(v1::Job::SUCCEEDED);
  terminal_ = true;
  EXPECT_THAT(Run({"run", file_, "--id", "a"}).err, HasSubstr("\r\x1b[K"));
}

TEST_F(StreamCommandsTest, RunOutlivesItsMetrics) {
  ScriptJob(v1::Job::SUCCEEDED);
  node_.metric_scripts = {{{}, absl::ResourceExhaustedError("too many streams")}};
  const CliResult result = Run({"run", file_, "--id", "a"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_THAT(result.err, HasSubstr("metrics are no longer shown: too many streams"));
}

TEST_F(StreamCommandsTest, FirstInterruptStopsSecondLeaves) {
  ScriptJob(v1::Job::RUNNING);
  node_.event_scripts = {{{}, absl::OkStatus(), /*wait_for_cancel=*/true}};
  node_.metric_scripts = {{{}, absl::OkStatus(), /*wait_for_cancel=*/true}};
  node_.on_cancel = [] { raise(SIGINT); };
  std::thread interrupter([&] {
    // Both streams are open, so the command listens to signals.
    node_.Await([&] { return !node_.event_requests.empty() && !node_.metric_requests.empty(); });
    raise(SIGINT);
  });
  const CliResult result = Run({"run", file_, "--id", "a"});
  interrupter.join();
  EXPECT_EQ(result.code, ExitCode::kInterrupted);
  EXPECT_EQ(node_.cancel_requests.size(), 1u);
  EXPECT_EQ(node_.cancel_requests.at(0).name(), "jobs/a");
  EXPECT_THAT(result.err, HasSubstr("asking jobs/a to stop in order; interrupt again"));
  EXPECT_THAT(result.err, HasSubstr("accelctl watch a"));
}

TEST_F(StreamCommandsTest, AReaderThatHasGoneEndsTheStreamQuietly) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto old_action = signal(SIGPIPE, SIG_IGN);
  node_.log_scripts = {{{BatchMessage<v1::StreamLogsResponse, v1::LogRecord>({Log(1, "one")})},
                        absl::OkStatus(),
                        /*wait_for_cancel=*/true}};
  FdStreamBuf buffer(ends[1]);
  std::ostream out(&buffer);
  std::istringstream in;
  std::ostringstream err;
  Io io{.in = in, .out = out, .err = err};
  io.environment = environment_;
  EXPECT_EQ(RunCli({"logs", "-f", "a"}, io), 0);
  EXPECT_EQ(buffer.error(), EPIPE);
  EXPECT_EQ(err.str(), "");
  close(ends[1]);
  signal(SIGPIPE, old_action);
}

TEST(FdStreamBufTest, WritesEverythingAndRemembersErrors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text(20000, 'x');
  {
    FdStreamBuf buffer(ends[1]);
    std::ostream out(&buffer);
    out << text << std::flush;
    EXPECT_EQ(buffer.error(), 0);
  }
  std::string got(text.size(), '\0');
  size_t size = 0;
  while (size < got.size()) {
    const ssize_t n = read(ends[0], got.data() + size, got.size() - size);
    ASSERT_GT(n, 0);
    size += static_cast<size_t>(n);
  }
  EXPECT_EQ(got, text);
  close(ends[0]);
  close(ends[1]);
  FdStreamBuf closed(-1);
  std::ostream out(&closed);
  out << "x" << std::flush;
  EXPECT_FALSE(out.good());
  EXPECT_EQ(closed.error(), EBADF);
}

}  // namespace
}  // namespace accel::cli
