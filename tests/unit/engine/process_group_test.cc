#include "core/engine/distributed/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "core/engine/loop/failure.h"
#include "core/engine/loop/training.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

using accel::v1::Failure;
using ::testing::HasSubstr;

TEST(ProcessGroup, ReducesOverAllRanks) {
  RunRanks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    EXPECT_EQ(communicator.world_size(), 3);
    EXPECT_EQ(communicator.Min(10 + rank), 10);
    EXPECT_EQ(communicator.Max(10 + rank), 12);
    at::Tensor sum = at::tensor({1.0 * rank, 0.5}, at::kDouble);
    communicator.AllReduceSum(sum);
    EXPECT_TRUE(at::equal(sum, at::tensor({3.0, 1.5}, at::kDouble)));
  });
}

TEST(ProcessGroup, BarrierWaitsForTheLastRank) {
  std::atomic<int> arrived = 0;
  RunRanks(2, [&](Communicator& communicator) {
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++arrived;
    communicator.Barrier();
    EXPECT_EQ(arrived, 2);
  });
}

TEST(ProcessGroup, OneRankNeedsNoStore) {
  auto starts = MakeStarts(1);
  auto communicator = Communicator::Connect(starts[0], at::kCPU, nullptr);
  ASSERT_TRUE(communicator.ok());
  EXPECT_EQ((*communicator)->group(), nullptr);
  EXPECT_EQ((*communicator)->Min(7), 7);
  at::Tensor tensor = at::ones({2});
  (*communicator)->AllReduceSum(tensor);
  EXPECT_TRUE(at::equal(tensor, at::ones({2})));
  (*communicator)->Finish();
}

TEST(ProcessGroup, TimeoutOfTheHandlerEndsACollective) {
  std::atomic<bool> rank0_failed = false;
  RunRanks(MakeStarts(2, /*timeout_seconds=*/1), [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (!rank0_failed) std::this_thread::yield();
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = Guarded("", [&] {
      communicator.Barrier();
      return absl::OkStatus();
    });
    EXPECT_EQ(CauseOf(status), Failure::COLLECTIVE) << status;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    rank0_failed = true;
  });
}

TEST(ProcessGroup, RefusesWhatItCannotDo) {
  auto starts = MakeStarts(2);
  auto* kwargs = starts[0].mutable_resolved_accelerator()->mutable_init_process_group_kwargs();
  kwargs->set_init_method("env://");
  auto refused = Communicator::Connect(starts[0], at::kCPU, nullptr).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("init_method"));

  kwargs->clear_init_method();
  kwargs->set_backend("nccl");
  refused = Communicator::Connect(starts[0], at::kCPU, nullptr).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace accel::engine
