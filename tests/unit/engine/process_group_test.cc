#include "core/engine/distributed/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "core/engine/loop/failure.h"
#include "core/engine/loop/training.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

using accel::v1::Failure;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST(ProcessGroup, TimeoutOfTheHandlerEndsACollectiveByName) {
  std::atomic<bool> rank0_failed = false;
  RunRanks(MakeStarts(2, /*timeout_seconds=*/1), [&](Communicator& communicator) {
    at::Tensor tensor = at::ones({5});
    communicator.AllReduceSum(tensor);
    if (communicator.rank() == 1) {
      while (!rank0_failed) std::this_thread::yield();
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = Guarded("", [&] {
      communicator.AllReduceSum(tensor);
      return absl::OkStatus();
    });
    EXPECT_EQ(CauseOf(status), Failure::COLLECTIVE) << status;
    EXPECT_THAT(std::string(status.message()),
                StartsWith("all-reduce number 2 (5 Float, timeout 1s): Timed out waiting 1000ms"));
    const auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, std::chrono::milliseconds(900));
    EXPECT_LT(waited, std::chrono::seconds(10));
    rank0_failed = true;
  });
}

TEST(ProcessGroup, AFutureFailsByNameToo) {
  std::atomic<bool> rank0_failed = false;
  RunRanks(MakeStarts(2, /*timeout_seconds=*/1), [&](Communicator& communicator) {
    std::vector<at::Tensor> tensors{at::ones({3})};
    auto future = communicator.group()->allreduce(tensors)->getFuture();
    future->waitAndThrow();
    EXPECT_TRUE(at::equal(future->value().toTensorVector()[0], at::full({3}, 2.0)));
    if (communicator.rank() == 1) {
      while (!rank0_failed) std::this_thread::yield();
      return;
    }
    const absl::Status status = Guarded("", [&] {
      communicator.group()->allreduce(tensors)->getFuture()->waitAndThrow();
      return absl::OkStatus();
    });
    EXPECT_EQ(CauseOf(status), Failure::COLLECTIVE) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith("all-reduce number 2 (3 Float"));
    rank0_failed = true;
  });
}

TEST(ProcessGroup, ARankThatNeverComesIsNamedAfterTheTimeout) {
  const auto starts = MakeStarts(3, /*timeout_seconds=*/1);
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&start = starts[rank], rank] {
      const absl::Status status = Communicator::Connect(start, at::kCPU, nullptr).status();
      EXPECT_EQ(CauseOf(status), Failure::COLLECTIVE) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("rendezvous of 3 ranks at 127.0.0.1:"), HasSubstr("timeout 1s")));
      if (rank == 0) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 did not come"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessGroup, AStoreThatNobodyServesIsGivenUpAfterTheTimeout) {
  const auto starts = MakeStarts(2, /*timeout_seconds=*/1);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = Communicator::Connect(starts[1], at::kCPU, nullptr).status();
  EXPECT_EQ(CauseOf(status), Failure::COLLECTIVE) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  close(starts[0].store_listen_fd());
}

TEST(ProcessGroup, RanksMeetInAFile) {
  const std::string file = testing::TempDir() + "/accel_store";
  std::remove(file.c_str());
  auto starts = MakeStarts(2);
  close(starts[0].store_listen_fd());
  for (auto& start : starts) start.set_store_file(file);
  RunRanks(starts, [](Communicator& communicator) { EXPECT_EQ(communicator.Max(5), 5); });
  EXPECT_EQ(DescribeGroup(starts[0]).store(), file);
}

TEST(ProcessGroup, EachDeviceHasItsBackend) {
  auto starts = MakeStarts(2);
  for (auto& start : starts) {
    start.mutable_resolved_accelerator()->mutable_init_process_group_kwargs()->set_backend(
        "cpu:gloo");
  }
  RunRanks(starts, [](Communicator& communicator) {
    EXPECT_EQ(communicator.group()->getBackend(c10::DeviceType::CPU)->getBackendName(), "gloo");
    EXPECT_THROW(communicator.group()->getBackend(c10::DeviceType::CUDA), c10::Error);
  });
  const accel::v1::ProcessGroupInfo info = DescribeGroup(starts[0]);
  EXPECT_EQ(info.backends().size(), 1u);
  EXPECT_EQ(info.backends().at("cpu"), "gloo");
  EXPECT_EQ(info.timeout_seconds(), 60);
}

TEST(ProcessGroup, RefusesWhatItCannotDo) {
  for (const char* backend : {"nccl", "cpu:gloo,cuda:nccl"}) {
    auto starts = MakeStarts(2);
    for (auto& start : starts) {
      start.mutable_resolved_accelerator()->mutable_init_process_group_kwargs()->set_backend(
          backend);
    }
    std::vector<std::thread> threads;
    for (const auto& start : starts) {
      threads.emplace_back([&start] {
        EXPECT_EQ(Communicator::Connect(start, at::kCPU, nullptr).status().code(),
                  absl::StatusCode::kFailedPrecondition);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace accel::engine
