#include "core/engine/data/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/engine/data/loader.h"
#include "core/engine/data/share_description.h"
#include "core/engine/loop/training.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

using testing::HasSubstr;

// Targets, how many count, and whether the epoch ends.
using Seen = std::vector<std::tuple<std::vector<int64_t>, int64_t, bool>>;

std::vector<int64_t> Values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

Seen Epoch(DataLoader& loader, int64_t skip = 0) {
  Seen seen;
  EXPECT_TRUE(loader.StartEpoch(0, skip).ok());
  for (;;) {
    const auto batch = loader.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return seen;
    seen.emplace_back(Values((*batch)->targets), (*batch)->valid, (*batch)->last);
  }
}

InMemoryDataset Numbers(int64_t n) {
  return InMemoryDataset(torch::arange(n).to(torch::kFloat).unsqueeze(1), torch::arange(n));
}

// Runs `use` with a dispatching loader of `n` samples on each of two ranks.
void WithLoaders(int64_t n, LoaderOptions options, const std::function<void(DataLoader&)>& use) {
  RunRanks(2, [&](Communicator& communicator) {
    std::shared_ptr<const Dataset> dataset;
    if (communicator.rank() == 0) dataset = std::make_shared<InMemoryDataset>(Numbers(n));
    ASSERT_TRUE(ShareDescription(communicator, at::kCPU, &dataset).ok());
    EXPECT_EQ(dataset->size(), n);
    EXPECT_EQ(dataset->num_classes(), n);
    EXPECT_EQ(dataset->feature_shape(), std::vector<int64_t>{1});
    LoaderOptions own = options;
    own.rank = communicator.rank();
    own.world_size = 2;
    own.shuffle = false;
    DataLoader loader(*dataset, own, Dispatcher(communicator, at::kCPU));
    use(loader);
  });
}

// The table of accelerate-behaviour.md 6.2: n = 10, batch 4, P = 2.
TEST(DispatcherTest, LastRoundIsCutInEqualParts) {
  std::map<bool, Seen> seen;
  absl::Mutex mutex;
  WithLoaders(10, {.batch_size = 4}, [&](DataLoader& loader) {
    const Seen epoch = Epoch(loader);
    const bool first = std::get<0>(epoch[0])[0] == 0;
    absl::MutexLock lock(&mutex);
    seen[first] = epoch;
  });
  EXPECT_EQ(seen[true], (Seen{{{0, 1, 2, 3}, 4, false}, {{8}, 1, true}}));
  EXPECT_EQ(seen[false], (Seen{{{4, 5, 6, 7}, 4, false}, {{9}, 1, true}}));
}

TEST(DispatcherTest, OddRoundIsCompletedFromTheStart) {
  std::map<bool, Seen> seen;
  absl::Mutex mutex;
  WithLoaders(9, {.batch_size = 4, .num_workers = 2}, [&](DataLoader& loader) {
    const Seen epoch = Epoch(loader, /*skip=*/1);
    const bool first = std::get<1>(epoch[0]) == 1;
    absl::MutexLock lock(&mutex);
    seen[first] = epoch;
  });
  EXPECT_EQ(seen[true], (Seen{{{8}, 1, true}}));
  EXPECT_EQ(seen[false], (Seen{{{0}, 0, true}}));
}

TEST(DispatcherTest, SplitBatchesAndDropLast) {
  WithLoaders(10, {.batch_size = 4, .split_batches = true}, [](DataLoader& loader) {
    EXPECT_EQ(loader.batches_per_epoch(), 3);
    EXPECT_EQ(std::get<0>(Epoch(loader).back()).size(), 1);
  });
  WithLoaders(10, {.batch_size = 4, .drop_last = true, .split_batches = true},
              [](DataLoader& loader) {
                EXPECT_EQ(loader.batches_per_epoch(), 2);
                EXPECT_EQ(Epoch(loader).size(), 2);
              });
}

TEST(DispatcherTest, ErrorOfRank0EndsEveryRank) {
  RunRanks(2, [](Communicator& communicator) {
    Dispatcher dispatcher(communicator, at::kCPU);
    auto round = communicator.rank() == 0
                     ? absl::StatusOr<std::optional<Batch>>(absl::NotFoundError("no file"))
                     : absl::StatusOr<std::optional<Batch>>(std::nullopt);
    const absl::Status status = dispatcher.Deal(std::move(round)).status();
    if (communicator.rank() == 0) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(CauseOf(status), accel::v1::Failure::COLLECTIVE);
    EXPECT_THAT(status.message(), HasSubstr("rank 0 could not read the data"));
  });
}

// The stream opens when the epoch begins: the others learn of it in their first Next.
TEST(DispatcherTest, StreamThatCannotBeOpenedEndsEveryRank) {
  RunRanks(2, [](Communicator& communicator) {
    DataLoader loader(
        [](int64_t) -> absl::StatusOr<std::unique_ptr<SampleStream>> {
          return absl::NotFoundError("no file");
        },
        [](const Examples&, int64_t) { return absl::OkStatus(); },
        {.batch_size = 4, .rank = communicator.rank(), .world_size = 2},
        Dispatcher(communicator, at::kCPU));
    EXPECT_TRUE(loader.StartEpoch(0, 0).ok());
    const absl::Status status = loader.Next().status();
    EXPECT_EQ(status.code(),
              communicator.rank() == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kAborted);
  });
}

TEST(DispatcherTest, TextIsRank0s) {
  RunRanks(3, [](Communicator& communicator) {
    const std::string own = communicator.rank() == 0 ? "of rank 0" : "another";
    EXPECT_EQ(BroadcastText(communicator, at::kCPU, own), "of rank 0");
    EXPECT_EQ(BroadcastText(communicator, at::kCPU, communicator.rank() == 0 ? "" : "x"), "");
  });
}

}  // namespace
}  // namespace accel::engine
