// Prometheus: series of jobs from their records, and the endpoint.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "core/base/fd.h"
#include "core/record/writer.h"
#include "gmock/gmock.h"
#include "prometheus/text_serializer.h"
#include "server/daemon/job_metrics.h"
#include "server/daemon/metrics_feed.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;
using testing::HasSubstr;
using testing::Not;

std::string Text(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

class TestClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + elapsed; }
  absl::Duration Monotonic() const override { return elapsed; }
  absl::Duration elapsed = absl::Seconds(1);
};

// A record that a test writes.
class RecordFile {
 public:
  explicit RecordFile(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    writer_ = *record::Writer::Open(folder / "job.db");
  }
  void Start(int attempt, int64_t first_step) {
    accel::v1::EventRecord event;
    event.set_attempt(attempt);
    event.mutable_training_started()->set_step(first_step);
    EXPECT_TRUE(writer_->Append(std::move(event)).ok());
  }
  void Step(int attempt, int64_t step, double loss = 0.5) {
    accel::v1::MetricRecord row;
    row.set_attempt(attempt);
    row.set_step(step);
    (*row.mutable_values())["train/loss"].set_number(loss);
    (*row.mutable_values())["perf/step_seconds"].set_number(0.1);
    (*row.mutable_values())["perf/samples_per_second"].set_number(200);
    EXPECT_TRUE(writer_->Append(std::move(row)).ok());
  }
  void Checkpoint(double stall_seconds) {
    accel::v1::EventRecord event;
    event.mutable_time()->set_seconds(1234);
    event.mutable_checkpoint_written()->set_bytes(5000);
    event.mutable_checkpoint_written()->set_stall_seconds(stall_seconds);
    EXPECT_TRUE(writer_->Append(std::move(event)).ok());
  }
  void Commit() { EXPECT_TRUE(writer_->Commit().ok()); }

 private:
  std::unique_ptr<record::Writer> writer_;
};

class MetricsFeedTest : public testing::Test {
 protected:
  MetricsFeedTest()
      : node_metrics_(registry_.get()),
        feed_(registry_.get(), &node_metrics_, dir_.path(),
              {.keep = absl::Minutes(5), .max_jobs = 2}, clock_) {}

  void Transition(const std::string& id, Job::State from, Job::State to) {
    feed_.OnTransition(id, from, to, accel::v1::Failure::CAUSE_UNSPECIFIED);
  }

  TempDir dir_;
  TestClock clock_;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  NodeMetrics node_metrics_;
  MetricsFeed feed_;
};

TEST_F(MetricsFeedTest, CountsStepsSamplesAndCheckpoints) {
  RecordFile record(dir_.path() / "a");
  record.Start(1, 100);
  record.Step(1, 101);
  record.Step(1, 102);
  record.Checkpoint(0.02);
  record.Commit();
  Transition("a", Job::QUEUED, Job::STARTING);
  feed_.Tick();
  std::string text = Text(*registry_);
  EXPECT_THAT(text, HasSubstr("accel_steps_total{job=\"a\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("accel_samples_total{job=\"a\"} 40\n"));
  EXPECT_THAT(text, HasSubstr("accel_step_duration_seconds_count{job=\"a\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("accel_train_loss{job=\"a\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("accel_checkpoint_bytes_total{job=\"a\"} 5000\n"));
  EXPECT_THAT(text, HasSubstr("accel_checkpoint_last_success_timestamp_seconds{job=\"a\"} 1234\n"));
  EXPECT_THAT(text, Not(HasSubstr("accel_grad_norm{")));

  // Ten steps between two rows, then a second attempt from an earlier step.
  record.Step(1, 112);
  record.Start(2, 110);
  record.Step(2, 111, std::nan(""));
  record.Commit();
  feed_.Tick();
  feed_.Tick();
  text = Text(*registry_);
  EXPECT_THAT(text, HasSubstr("accel_steps_total{job=\"a\"} 13\n"));
  EXPECT_THAT(text, HasSubstr("accel_train_loss{job=\"a\"} Nan\n"));
}

TEST_F(MetricsFeedTest, SeriesGoSomeTimeAfterTheEnd) {
  RecordFile record(dir_.path() / "a");
  Transition("a", Job::QUEUED, Job::STARTING);
  feed_.Tick();
  record.Step(1, 1);
  record.Commit();
  Transition("a", Job::RUNNING, Job::SUCCEEDED);
  feed_.Tick();
  EXPECT_THAT(Text(*registry_), HasSubstr("accel_steps_total{job=\"a\"} 1\n"));
  clock_.elapsed += absl::Minutes(4);
  feed_.Tick();
  EXPECT_THAT(Text(*registry_), HasSubstr("job=\"a\""));
  clock_.elapsed += absl::Minutes(2);
  feed_.Tick();
  EXPECT_THAT(Text(*registry_), Not(HasSubstr("job=\"a\"")));
}

TEST_F(MetricsFeedTest, JobsAboveTheLimitHaveNoSeries) {
  for (const char* const id : {"a", "b", "c"}) {
    RecordFile record(dir_.path() / id);
    record.Step(1, 1);
    record.Commit();
    Transition(id, Job::QUEUED, Job::STARTING);
  }
  feed_.Tick();
  const std::string text = Text(*registry_);
  EXPECT_THAT(text, HasSubstr("job=\"b\""));
  EXPECT_THAT(text, Not(HasSubstr("job=\"c\"")));
  EXPECT_THAT(text, HasSubstr("accel_job_series_suppressed_total 1\n"));
}

TEST_F(MetricsFeedTest, UnreadableRecordIsCounted) {
  std::filesystem::create_directories(dir_.path() / "torn");
  std::ofstream(dir_.path() / "torn/job.db") << std::string(5000, 'x');
  Transition("torn", Job::QUEUED, Job::STARTING);
  feed_.Tick();
  EXPECT_THAT(Text(*registry_), HasSubstr("accel_metrics_feed_errors_total 1\n"));
}

// What an HTTP client sees.
std::string Scrape(const std::string& address) {
  const Address parsed = *ParseAddress(address);
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(parsed.port));
  inet_pton(AF_INET, parsed.host.c_str(), &name.sin_addr);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) return "";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 1; got > 0;) {
    got = recv(fd.get(), buffer, sizeof(buffer), 0);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

using MetricsEndpointTest = DaemonTest;

TEST_F(MetricsEndpointTest, ShowsTheNode) {
  ASSERT_TRUE(client_->Submit("good", {.rows = 12}).ok());
  ASSERT_TRUE(client_->Submit("bad", {.end = "FAILED"}).ok());
  ASSERT_TRUE(client_->AwaitState("good", Job::SUCCEEDED));
  ASSERT_TRUE(client_->AwaitState("bad", Job::FAILED));
  EXPECT_EQ(client_->Stream("good", 0, true).rows.size(), 12u);
  std::string text;
  for (const char* const line :
       {"accel_build_info{version=\"", "accel_jobs{state=\"SUCCEEDED\"} 1\n",
        "accel_jobs{state=\"FAILED\"} 1\n", "accel_jobs{state=\"RUNNING\"} 0\n",
        "accel_job_failures_total{cause=\"DATA\"} 1\n",
        "accel_job_failures_total{cause=\"SIGNAL\"} 0\n", "accel_ranks_in_use 0\n",
        "accel_queued_jobs 0\n", "accel_steps_total{job=\"good\"} 12\n",
        "accel_stream_records_sent_total{kind=\"metrics\"} 12\n",
        "accel_stream_subscribers{kind=\"metrics\"} 0\n",
        "accel_job_state_transitions_total{from=\"NONE\",to=\"QUEUED\"} 2\n",
        "accel_rpc_server_duration_seconds_count{code=\"OK\",method=\"JobService.CreateJob\"} "
        "2\n"}) {
    EXPECT_TRUE(Eventually([&] {
      text = Scrape(daemon_->metrics_address());
      return text.find(line) != std::string::npos;
    })) << line
        << text;
  }
}

TEST_F(MetricsEndpointTest, CountersGoOnAfterARestart) {
  ASSERT_TRUE(client_->Submit("long", {.rows = 30, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("long", 30));
  Restart();
  EXPECT_TRUE(Eventually([&] {
    return Scrape(daemon_->metrics_address()).find("accel_steps_total{job=\"long\"} 30\n") !=
           std::string::npos;
  }));
}

}  // namespace
}  // namespace accel::daemon
