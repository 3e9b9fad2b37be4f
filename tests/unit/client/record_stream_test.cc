#include "client/record_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/client.h"
#include "tests/unit/client/fake_node.h"

namespace accel::client {
namespace {

using ::accel::fake::BatchMessage;
using ::accel::fake::EndMessage;
using ::accel::fake::FakeNode;
using ::accel::fake::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Response = v1::StreamMetricsResponse;
using Script = accel::fake::StreamScript<Response>;

Response Rows(const std::vector<int64_t>& sequences) {
  std::vector<v1::MetricRecord> records;
  for (int64_t sequence : sequences) records.emplace_back().set_sequence(sequence);
  return BatchMessage<Response>(records);
}

class RecordStreamTest : public ::testing::Test {
 protected:
  RecordStreamTest() {
    options_.resume.max_attempts = 5;
    options_.resume.first_delay = absl::Milliseconds(1);
    options_.resume.max_delay = absl::Milliseconds(4);
    options_.resume.observer = [this](const StreamInterruption& interruption) {
      interruptions_.push_back(interruption);
      if (on_interruption_) on_interruption_();
    };
  }

  std::unique_ptr<MetricStream> Open(int64_t after = 0) {
    client_ = *Client::Connect(node_.address(), options_);
    v1::StreamMetricsRequest request;
    request.set_name("jobs/a");
    request.mutable_range()->set_after_sequence(after);
    request.mutable_range()->set_follow(true);
    return client_->StreamMetrics(request);
  }

  // Sequences of all rows, then the status of the end.
  static std::pair<std::vector<int64_t>, absl::Status> Drain(MetricStream& stream) {
    std::vector<int64_t> sequences;
    while (true) {
      const absl::StatusOr<std::optional<v1::MetricRecord>> record = stream.Next();
      if (!record.ok()) return {sequences, record.status()};
      if (!record->has_value()) return {sequences, absl::OkStatus()};
      sequences.push_back((*record)->sequence());
    }
  }

  std::vector<int64_t> StartsAfter() {
    std::vector<int64_t> starts;
    for (const auto& request : node_.metric_requests) {
      starts.push_back(request.range().after_sequence());
    }
    return starts;
  }

  TempDir dir_;
  FakeNode node_{"unix:" + dir_ / "node.sock"};
  ClientOptions options_;
  std::unique_ptr<Client> client_;
  std::vector<StreamInterruption> interruptions_;
  std::function<void()> on_interruption_;
};

TEST_F(RecordStreamTest, DeliversRowsToTheEnd) {
  node_.metric_scripts = {Script{{Rows({3, 4}), Rows({9}), EndMessage<Response>(12)}}};
  const auto stream = Open(2);
  const auto [rows, status] = Drain(*stream);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(rows, ElementsAre(3, 4, 9));
  EXPECT_EQ(stream->sequence(), 12);
  EXPECT_THAT(StartsAfter(), ElementsAre(2));
  EXPECT_FALSE((*stream->Next()).has_value());
}

TEST_F(RecordStreamTest, ResumesAfterUnavailableAtTheLastRow) {
  node_.metric_scripts = {Script{{Rows({1, 2})}, absl::UnavailableError("draining")},
                          Script{{}, absl::UnavailableError("draining")},
                          Script{{Rows({3}), EndMessage<Response>(3)}}};
  const auto stream = Open();
  const auto [rows, status] = Drain(*stream);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(StartsAfter(), ElementsAre(0, 2, 2));
  ASSERT_EQ(interruptions_.size(), 2u);
  EXPECT_EQ(interruptions_[1].attempt, 2);
  EXPECT_EQ(interruptions_[1].sequence, 2);
  EXPECT_EQ(interruptions_[1].cause.code(), absl::StatusCode::kUnavailable);
}

TEST_F(RecordStreamTest, ResumesAtAProgressMark) {
  Response progress;
  progress.mutable_progress()->set_sequence(50);
  node_.metric_scripts = {Script{{Rows({1}), progress}, absl::UnavailableError("draining")},
                          Script{{EndMessage<Response>(60)}}};
  const auto stream = Open();
  EXPECT_TRUE(Drain(*stream).second.ok());
  EXPECT_THAT(StartsAfter(), ElementsAre(0, 50));
}

TEST_F(RecordStreamTest, LeavesOutRowsItHasSeen) {
  node_.metric_scripts = {Script{{Rows({1, 2})}, absl::UnavailableError("draining")},
                          Script{{Rows({1, 2, 3}), EndMessage<Response>(3)}}};
  EXPECT_THAT(Drain(*Open()).first, ElementsAre(1, 2, 3));
}

TEST_F(RecordStreamTest, EndWithoutLastMessageIsAnInterruption) {
  node_.metric_scripts = {Script{{Rows({1})}}, Script{{Rows({2}), EndMessage<Response>(2)}}};
  EXPECT_THAT(Drain(*Open()).first, ElementsAre(1, 2));
  EXPECT_EQ(interruptions_.size(), 1u);
}

TEST_F(RecordStreamTest, ResumesAfterARestartOfTheDaemon) {
  node_.metric_scripts = {Script{{Rows({1, 2})}, absl::OkStatus(), /*wait_for_cancel=*/true},
                          Script{{Rows({3}), EndMessage<Response>(3)}}};
  const auto stream = Open();
  ASSERT_EQ((*stream->Next())->sequence(), 1);
  ASSERT_EQ((*stream->Next())->sequence(), 2);
  node_.Stop();
  on_interruption_ = [this] {
    if (interruptions_.size() == 1) node_.Start();
  };
  const auto [rows, status] = Drain(*stream);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(rows, ElementsAre(3));
  EXPECT_EQ(StartsAfter().back(), 2);
}

TEST_F(RecordStreamTest, OtherErrorsAreFinal) {
  node_.metric_scripts = {Script{{Rows({1})}, absl::ResourceExhaustedError("too many streams")}};
  const auto [rows, status] = Drain(*Open());
  EXPECT_THAT(rows, ElementsAre(1));
  EXPECT_EQ(status, absl::ResourceExhaustedError("too many streams"));
  EXPECT_TRUE(interruptions_.empty());
}

TEST_F(RecordStreamTest, GivesUpAfterTheLastAttempt) {
  node_.metric_scripts.assign(20, Script{{}, absl::UnavailableError("draining")});
  node_.metric_scripts[0].messages = {Rows({7})};
  const auto [rows, status] = Drain(*Open());
  EXPECT_THAT(rows, ElementsAre(7));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("after row 7, 5 tries"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("draining"));
  EXPECT_EQ(interruptions_.size(), 5u);
}

TEST_F(RecordStreamTest, AnUnknownDaemonGetsFewTries) {
  node_.Stop();
  EXPECT_EQ(Drain(*Open()).second.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(interruptions_.size(), 3u);
}

TEST_F(RecordStreamTest, CancelEndsABlockedRead) {
  node_.metric_scripts = {Script{{Rows({1})}, absl::OkStatus(), /*wait_for_cancel=*/true}};
  const auto stream = Open();
  ASSERT_TRUE(stream->Next().ok());
  std::thread canceller([&] { stream->Cancel(); });
  EXPECT_EQ(stream->Next().status().code(), absl::StatusCode::kCancelled);
  canceller.join();
  EXPECT_EQ(stream->Next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(interruptions_.empty());
}

TEST_F(RecordStreamTest, CancelEndsAWaitBetweenTries) {
  options_.resume.first_delay = absl::Hours(1);
  options_.resume.max_delay = absl::Hours(1);
  node_.metric_scripts = {Script{{Rows({1})}, absl::UnavailableError("draining")}};
  const auto stream = Open();
  ASSERT_TRUE(stream->Next().ok());
  std::thread canceller;
  on_interruption_ = [&] { canceller = std::thread([&] { stream->Cancel(); }); };
  EXPECT_EQ(stream->Next().status().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST_F(RecordStreamTest, MayBeDroppedInMidStreamAndOutliveItsClient) {
  node_.metric_scripts = {Script{{Rows({1, 2})}, absl::OkStatus(), /*wait_for_cancel=*/true}};
  auto stream = Open();
  client_ = nullptr;
  ASSERT_TRUE(stream->Next().ok());
  stream = nullptr;
  // The server's handler ends only when the client's end of the stream is gone.
  node_.Stop();
}

}  // namespace
}  // namespace accel::client
