// TelemetryService over gRPC.
#include <future>

#include "gmock/gmock.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;
using accel::v1::StreamEnd;
using testing::ElementsAre;

using StreamTest = DaemonTest;

TEST_F(StreamTest, ResumesAfterAnySequence) {
  ASSERT_TRUE(client_->Submit("ended", {.rows = 40}).ok());
  ASSERT_TRUE(client_->AwaitState("ended", Job::SUCCEEDED));
  const MetricsStream all = client_->Stream("ended", 0, false);
  ASSERT_TRUE(all.status.ok());
  ASSERT_EQ(all.rows.size(), 40u);
  EXPECT_EQ(all.end.reason(), StreamEnd::CAUGHT_UP);
  const std::vector<int64_t> sequences = all.Sequences();
  EXPECT_TRUE(std::is_sorted(sequences.begin(), sequences.end()));
  for (int64_t after = 0; after <= all.end.sequence(); ++after) {
    std::vector<int64_t> expected;
    for (const int64_t sequence : sequences) {
      if (sequence > after) expected.push_back(sequence);
    }
    const MetricsStream rest = client_->Stream("ended", after, true);
    ASSERT_EQ(rest.Sequences(), expected) << after;
    ASSERT_EQ(rest.end.reason(), StreamEnd::JOB_ENDED);
    ASSERT_EQ(rest.end.sequence(), all.end.sequence());
  }
}

TEST_F(StreamTest, ManyClientsFollowARunningJob) {
  ASSERT_TRUE(client_->Submit("live", {.rows = 150, .pause_ms = 1}).ok());
  std::vector<std::future<MetricsStream>> followers;
  for (int i = 0; i < 8; ++i) {
    followers.push_back(std::async(std::launch::async, [&] {
      return NodeClient(daemon_->listen_addresses().at(0)).Stream("live", 0, true);
    }));
  }
  for (auto& follower : followers) {
    const MetricsStream stream = follower.get();
    ASSERT_EQ(stream.rows.size(), 150u);
    for (int i = 0; i < 150; ++i) EXPECT_EQ(stream.rows[i].step(), i + 1);
    EXPECT_EQ(stream.end.reason(), StreamEnd::JOB_ENDED);
  }
}

TEST_F(StreamTest, QueuedJobIsWaitedFor) {
  options_.max_world_size = options_.max_ranks = 2;
  Restart();
  ASSERT_TRUE(client_->Submit("blocker", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("blocker", Job::RUNNING));
  ASSERT_TRUE(client_->Submit("waiting", {.ranks = 2, .rows = 3}).ok());
  const MetricsStream now = client_->Stream("waiting", 0, false);
  EXPECT_EQ(now.end.reason(), StreamEnd::CAUGHT_UP);
  EXPECT_TRUE(now.rows.empty());
  auto follower =
      std::async(std::launch::async, [&] { return client_->Stream("waiting", 0, true); });
  ASSERT_TRUE(client_->Cancel("blocker").ok());
  EXPECT_EQ(follower.get().rows.size(), 3u);
}

TEST_F(StreamTest, IdleStreamShowsProgress) {
  ASSERT_TRUE(client_->Submit("idle", {.rows = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("idle", 2));
  accel::v1::StreamEventsRequest request;
  request.set_name("jobs/idle");
  request.mutable_range()->set_follow(true);
  grpc::ClientContext context;
  const auto reader = client_->telemetry->StreamEvents(&context, request);
  accel::v1::StreamEventsResponse response;
  int64_t last_event = 0;
  while (reader->Read(&response) && !response.has_progress()) {
    for (const auto& event : response.batch().records()) last_event = event.sequence();
  }
  ASSERT_TRUE(response.has_progress());
  // Two rows of metrics and two lines of log lie behind the last event.
  EXPECT_EQ(response.progress().sequence(), last_event + 4);
  context.TryCancel();
}

TEST_F(StreamTest, SequenceBeyondTheEndWaits) {
  ASSERT_TRUE(client_->Submit("short", {.rows = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("short", 2));
  auto follower =
      std::async(std::launch::async, [&] { return client_->Stream("short", 100000, true); });
  ASSERT_TRUE(client_->Cancel("short").ok());
  const MetricsStream stream = follower.get();
  EXPECT_TRUE(stream.rows.empty());
  EXPECT_EQ(stream.end.reason(), StreamEnd::JOB_ENDED);
}

TEST_F(StreamTest, FiltersKeysAndRanks) {
  ASSERT_TRUE(client_->Submit("filtered", {.rows = 10}).ok());
  ASSERT_TRUE(client_->AwaitState("filtered", Job::SUCCEEDED));
  const MetricsStream loss = client_->Stream("filtered", 0, true, {"train/loss"});
  ASSERT_EQ(loss.rows.size(), 10u);
  EXPECT_EQ(loss.rows[0].values_size(), 1);
  const MetricsStream none = client_->Stream("filtered", 0, true, {"unknown"});
  EXPECT_TRUE(none.rows.empty());
  EXPECT_EQ(none.end.sequence(), loss.end.sequence());

  accel::v1::StreamLogsRequest request;
  request.set_name("jobs/filtered");
  request.add_ranks(1);
  grpc::ClientContext context;
  const auto reader = client_->telemetry->StreamLogs(&context, request);
  accel::v1::StreamLogsResponse response;
  std::vector<std::string> lines;
  while (reader->Read(&response)) {
    for (const auto& line : response.batch().records()) lines.push_back(line.text());
  }
  EXPECT_THAT(lines, ElementsAre("step 1", "step 3", "step 5", "step 7", "step 9"));
}

TEST_F(StreamTest, SlowReaderHoldsUpNobodyAndMissesNothing) {
  ASSERT_TRUE(client_->Submit("large", {.rows = 200, .bytes = 60000}).ok());
  accel::v1::StreamMetricsRequest request;
  request.set_name("jobs/large");
  request.mutable_range()->set_follow(true);
  grpc::ClientContext context;
  const auto slow = client_->telemetry->StreamMetrics(&context, request);
  accel::v1::StreamMetricsResponse response;
  ASSERT_TRUE(slow->Read(&response));
  int64_t rows = response.batch().records_size();
  // 12 MB wait for the slow client meanwhile; the job and another client come to their end.
  EXPECT_EQ(NodeClient(daemon_->listen_addresses().at(0)).Stream("large", 0, true).rows.size(),
            200u);
  ASSERT_TRUE(client_->AwaitState("large", Job::SUCCEEDED));
  while (slow->Read(&response)) rows += response.batch().records_size();
  EXPECT_TRUE(slow->Finish().ok());
  EXPECT_EQ(rows, 200);
}

TEST_F(StreamTest, VanishedClientMakesRoom) {
  options_.max_streams = 1;
  Restart();
  ASSERT_TRUE(client_->Submit("job", {.end = "STAY"}).ok());
  accel::v1::StreamMetricsRequest request;
  request.set_name("jobs/job");
  request.mutable_range()->set_follow(true);
  accel::v1::StreamMetricsResponse response;
  auto vanishing = std::make_unique<NodeClient>(daemon_->listen_addresses().at(0));
  auto context = std::make_unique<grpc::ClientContext>();
  auto reader = vanishing->telemetry->StreamMetrics(context.get(), request);
  ASSERT_TRUE(reader->Read(&response));
  const MetricsStream refused = client_->Stream("job", 0, false);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ErrorInfoOf(refused.status).reason(), "TOO_MANY_STREAMS");
  context->TryCancel();
  reader->Finish();
  reader.reset();
  context.reset();
  vanishing.reset();
  EXPECT_TRUE(Eventually([&] { return client_->Stream("job", 0, false).status.ok(); }));
}

TEST_F(StreamTest, DrainEndsStreamsWithTheSequence) {
  ASSERT_TRUE(client_->Submit("drained", {.rows = 5, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("drained", 5));
  accel::v1::StreamMetricsRequest request;
  request.set_name("jobs/drained");
  request.mutable_range()->set_follow(true);
  grpc::ClientContext context;
  const auto reader = client_->telemetry->StreamMetrics(&context, request);
  accel::v1::StreamMetricsResponse response;
  std::vector<int64_t> seen;
  const auto take = [&] {
    for (const auto& row : response.batch().records()) seen.push_back(row.sequence());
  };
  while (seen.size() < 5 && reader->Read(&response)) take();
  auto draining = std::async(std::launch::async, [&] { daemon_->Drain(); });
  while (reader->Read(&response)) take();
  const grpc::Status status = reader->Finish();
  draining.get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_EQ(ErrorInfoOf(status).reason(), "NODE_DRAINING");
  const int64_t after = std::stoll(ErrorInfoOf(status).metadata().at("sequence"));
  EXPECT_GE(after, seen.back());
  Restart();
  ASSERT_TRUE(client_->Cancel("drained").ok());
  EXPECT_TRUE(client_->Stream("drained", after, true).rows.empty());
  EXPECT_EQ(client_->Stream("drained", 0, true).Sequences(), seen);
}

TEST_F(StreamTest, BadRequestsAreRefused) {
  EXPECT_EQ(ErrorInfoOf(client_->Stream("none", 0, true).status).reason(), "JOB_NOT_FOUND");
  EXPECT_THAT(ViolatedFields(client_->Stream("none", -1, true).status),
              ElementsAre("range.after_sequence"));
  EXPECT_THAT(ViolatedFields(client_->Stream("Bad", 0, true).status), ElementsAre("name"));
  EXPECT_THAT(
      ViolatedFields(client_->Stream("none", 0, true, std::vector<std::string>(1001, "a")).status),
      ElementsAre("keys"));
}

TEST_F(StreamTest, DeletedJobEndsNoDaemon) {
  ASSERT_TRUE(client_->Submit("gone", {.rows = 50}).ok());
  ASSERT_TRUE(client_->AwaitState("gone", Job::SUCCEEDED));
  ASSERT_TRUE(client_->Delete("gone").ok());
  EXPECT_EQ(client_->Stream("gone", 0, true).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace accel::daemon
