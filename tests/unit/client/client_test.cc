#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "client/call_status.h"
#include "core/base/errors.h"
#include "tests/unit/client/fake_node.h"

namespace accel::client {
namespace {

using ::accel::fake::FakeNode;
using ::accel::fake::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Pair;

class ClientTest : public ::testing::Test {
 protected:
  TempDir dir_;
  FakeNode node_{"unix:" + dir_ / "node.sock"};
  std::unique_ptr<Client> client_ = *Client::Connect(node_.address());
};

TEST(ConnectTest, TakesUnixSocketsAndLoopbackOnly) {
  for (const char* good :
       {"unix:/run/x.sock", "127.0.0.1:1", "127.9.9.9:65535", "[::1]:80", "localhost:50051"}) {
    EXPECT_TRUE(Client::Connect(good).ok()) << good;
  }
  for (const char* bad : {"", "unix:", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "10.0.0.1:80",
                          "example.com:80", "127.0.0.1:x", "0.0.0.0:80", "[::]:80"}) {
    const absl::Status status = Client::Connect(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("\"", bad, "\"")));
  }
}

TEST(ConnectTest, UnreachableDaemonIsUnavailableSoon) {
  TempDir dir;
  const auto client = Client::Connect("unix:" + dir / "none.sock");
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*client)->GetNode().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, WorksOverLoopback) {
  FakeNode node("127.0.0.1:0");
  node.node.set_version("1.2.3");
  const auto client = Client::Connect(node.address());
  ASSERT_TRUE(client.ok());
  const auto answer = (*client)->GetNode();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->version(), "1.2.3");
}

TEST_F(ClientTest, RetriesReads) {
  node_.failures = {absl::UnavailableError("draining"), absl::UnavailableError("draining")};
  node_.job.set_name("jobs/a");
  const auto job = client_->GetJob(v1::GetJobRequest());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "jobs/a");
  EXPECT_EQ(node_.get_requests.size(), 3u);
}

TEST_F(ClientTest, RetriesWritesWithOneRequestId) {
  node_.failures = {absl::UnavailableError("draining")};
  ASSERT_TRUE(client_->CreateJob(v1::CreateJobRequest()).ok());
  ASSERT_EQ(node_.create_requests.size(), 2u);
  EXPECT_EQ(node_.create_requests[0].request_id(), node_.create_requests[1].request_id());
  EXPECT_THAT(node_.create_requests[0].request_id(),
              MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));

  ASSERT_TRUE(client_->CreateJob(v1::CreateJobRequest()).ok());
  EXPECT_NE(node_.create_requests[2].request_id(), node_.create_requests[0].request_id());
}

TEST_F(ClientTest, KeepsTheCallersRequestId) {
  v1::CancelJobRequest request;
  request.set_request_id("mine");
  ASSERT_TRUE(client_->CancelJob(request).ok());
  EXPECT_EQ(node_.cancel_requests.at(0).request_id(), "mine");
}

TEST_F(ClientTest, GivesUpAfterFourTries) {
  node_.failures.assign(10, absl::UnavailableError("draining"));
  EXPECT_EQ(client_->GetNode().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(node_.unary_calls, 4);
}

TEST_F(ClientTest, DoesNotRetryOtherErrors) {
  node_.failures = {absl::ResourceExhaustedError("queue is full")};
  EXPECT_EQ(client_->CreateJob(v1::CreateJobRequest()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(node_.create_requests.size(), 1u);
}

TEST_F(ClientTest, KeepsErrorDetails) {
  FieldViolations violations;
  violations.Add("loop.num_epochs", "0 is not in 1 to 1000000");
  violations.Add("model", "is required");
  const absl::Status sent = violations.ToStatus();
  node_.failures = {sent};
  const absl::Status status = client_->CreateJob(v1::CreateJobRequest()).status();
  EXPECT_EQ(status, sent);
  EXPECT_THAT(ViolationsOf(status), ElementsAre(Pair("loop.num_epochs", "0 is not in 1 to 1000000"),
                                                Pair("model", "is required")));
  ASSERT_TRUE(ErrorInfoOf(status).has_value());
  EXPECT_EQ(ErrorInfoOf(status)->reason(), "INVALID_FIELDS");
  EXPECT_EQ(ErrorInfoOf(status)->domain(), "accel.v1");
}

TEST_F(ClientTest, StatusWithoutDetailsHasNone) {
  node_.failures = {absl::NotFoundError("no job jobs/a")};
  const absl::Status status = client_->DeleteJob(v1::DeleteJobRequest());
  EXPECT_EQ(status, absl::NotFoundError("no job jobs/a"));
  EXPECT_FALSE(ErrorInfoOf(status).has_value());
  EXPECT_TRUE(ViolationsOf(status).empty());
}

TEST_F(ClientTest, UnaryCallsHaveADeadline) {
  ClientOptions options;
  options.deadline = absl::Milliseconds(50);
  const auto client = Client::Connect(node_.address(), options);
  ASSERT_TRUE(client.ok());
  absl::Notification release;
  node_.on_cancel = [&] { release.WaitForNotification(); };
  EXPECT_EQ((*client)->CancelJob(v1::CancelJobRequest()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  release.Notify();
}

TEST_F(ClientTest, ListsAllPages) {
  for (const char* name : {"jobs/a", "jobs/b", "jobs/c", "jobs/d", "jobs/e"}) {
    node_.jobs.emplace_back().set_name(name);
  }
  const auto jobs = client_->ListAllJobs({v1::Job::RUNNING});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 5u);
  EXPECT_EQ(jobs->back().name(), "jobs/e");
  ASSERT_EQ(node_.list_requests.size(), 3u);
  for (const v1::ListJobsRequest& request : node_.list_requests) {
    EXPECT_THAT(request.states(), ElementsAre(v1::Job::RUNNING));
  }
}

TEST_F(ClientTest, ReadsHealth) {
  EXPECT_TRUE(client_->CheckServing(absl::Seconds(10)).ok());
  node_.health()->SetServingStatus(false);
  const absl::Status status = client_->CheckServing(absl::Seconds(10));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not serving"));
}

}  // namespace
}  // namespace accel::client
