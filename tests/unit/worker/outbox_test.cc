#include "server/worker/outbox.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace accel::worker {
namespace {

using accel::internal::v1::FromWorker;
using accel::internal::v1::WorkerReport;

WorkerReport Step(int64_t step) {
  WorkerReport report;
  report.mutable_step()->set_step(step);
  return report;
}

struct Pipe {
  Pipe() {
    auto sockets = MakeSocketPair();
    EXPECT_TRUE(sockets.ok());
    worker = std::make_unique<MessageChannel>(std::move(sockets->first));
    supervisor = std::make_unique<MessageChannel>(std::move(sockets->second));
  }
  std::unique_ptr<MessageChannel> worker;
  std::unique_ptr<MessageChannel> supervisor;
};

void Unexpected(const absl::Status& status) { ADD_FAILURE() << status; }

TEST(Outbox, SendsInOrderAndInBatches) {
  Pipe pipe;
  constexpr int kReports = 3 * Outbox::kMaxBatch / 2;
  Outbox outbox(*pipe.worker, Unexpected);
  for (int i = 0; i < kReports; ++i) outbox.OnReport(Step(i));
  int received = 0;
  int messages = 0;
  while (received < kReports) {
    FromWorker batch;
    ASSERT_TRUE(pipe.supervisor->Receive(&batch).ok());
    EXPECT_LE(batch.reports_size(), Outbox::kMaxBatch);
    for (const auto& report : batch.reports()) EXPECT_EQ(report.step().step(), received++);
    ++messages;
  }
  EXPECT_LT(messages, kReports / 100);
}

TEST(Outbox, CloseSendsTheRest) {
  Pipe pipe;
  Outbox outbox(*pipe.worker, Unexpected);
  outbox.OnReport(Step(1));
  outbox.OnUrgentReport(Step(2));
  outbox.Close();
  outbox.OnReport(Step(3));
  pipe.worker.reset();
  FromWorker all;
  FromWorker batch;
  while (pipe.supervisor->Receive(&batch).ok()) all.MergeFrom(batch);
  ASSERT_EQ(all.reports_size(), 2);
  EXPECT_EQ(all.reports(1).step().step(), 2);
}

TEST(Outbox, SaysWhenTheSupervisorIsGone) {
  Pipe pipe;
  pipe.supervisor.reset();
  absl::Notification lost;
  Outbox outbox(*pipe.worker, [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    lost.Notify();
  });
  outbox.OnReport(Step(1));
  EXPECT_TRUE(lost.WaitForNotificationWithTimeout(absl::Seconds(10)));
}

}  // namespace
}  // namespace accel::worker
