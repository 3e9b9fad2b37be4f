#include "core/engine/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "core/engine/data/split.h"

namespace accel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Batches = std::vector<std::vector<int64_t>>;

// Positions of each batch of one rank.
Batches BatchesOf(ShardOptions options, int64_t rank) {
  options.rank = rank;
  const BatchShard shard(options);
  Batches batches;
  for (int64_t b = 0; b < shard.num_batches(); ++b) {
    const ShardBatch batch = shard.Batch(b);
    batches.emplace_back();
    for (int64_t i = 0; i < batch.count; ++i) {
      batches.back().push_back((batch.begin + i) % options.num_samples);
    }
  }
  return batches;
}

// What an evaluation counts: the valid samples of all ranks, round by round.
std::vector<int64_t> CountedOf(ShardOptions options) {
  std::vector<int64_t> counted;
  for (int64_t b = 0; b < BatchShard(options).rounds(); ++b) {
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      const BatchShard shard(options);
      if (b >= shard.num_batches()) continue;
      const ShardBatch batch = shard.Batch(b);
      for (int64_t i = 0; i < batch.valid; ++i) counted.push_back(batch.begin + i);
    }
  }
  return counted;
}

constexpr ShardOptions kTenByFour = {.num_samples = 10, .batch_size = 4, .world_size = 2};

TEST(BatchShardTest, LastRoundIsCompletedFromTheStart) {
  EXPECT_EQ(BatchesOf(kTenByFour, 0), (Batches{{0, 1, 2, 3}, {8, 9, 0, 1}}));
  EXPECT_EQ(BatchesOf(kTenByFour, 1), (Batches{{4, 5, 6, 7}, {2, 3, 4, 5}}));
}

TEST(BatchShardTest, WithoutEvenBatchesRanksEndApart) {
  ShardOptions options = kTenByFour;
  options.even_batches = false;
  EXPECT_EQ(BatchesOf(options, 0), (Batches{{0, 1, 2, 3}, {8, 9}}));
  EXPECT_EQ(BatchesOf(options, 1), (Batches{{4, 5, 6, 7}}));
  EXPECT_EQ(BatchShard(options).rounds(), 2);
}

TEST(BatchShardTest, DropLastLeavesIncompleteRoundsOut) {
  ShardOptions options = kTenByFour;
  options.drop_last = true;
  EXPECT_EQ(BatchesOf(options, 0), (Batches{{0, 1, 2, 3}}));
  EXPECT_EQ(BatchesOf(options, 1), (Batches{{4, 5, 6, 7}}));
  options.num_samples = 7;
  EXPECT_THAT(BatchesOf(options, 0), IsEmpty());
  EXPECT_THAT(BatchesOf(options, 1), IsEmpty());
}

TEST(BatchShardTest, SplitBatchesCutsEachBatch) {
  ShardOptions options = kTenByFour;
  options.split_batches = true;
  EXPECT_EQ(BatchesOf(options, 0), (Batches{{0, 1}, {4, 5}, {8, 9}}));
  EXPECT_EQ(BatchesOf(options, 1), (Batches{{2, 3}, {6, 7}, {0, 1}}));
  options.even_batches = false;
  EXPECT_EQ(BatchesOf(options, 0), (Batches{{0, 1}, {4, 5}, {8, 9}}));
  EXPECT_EQ(BatchesOf(options, 1), (Batches{{2, 3}, {6, 7}}));
}

TEST(BatchShardTest, FewSamplesAreRepeated) {
  const ShardOptions options = {.num_samples = 2, .batch_size = 4, .world_size = 3};
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(BatchesOf(options, rank), (Batches{{0, 1, 0, 1}})) << rank;
  }
  EXPECT_THAT(CountedOf(options), ElementsAre(0, 1));
}

TEST(BatchShardTest, OneRankKeepsItsShortBatch) {
  ShardOptions options = kTenByFour;
  options.world_size = 1;
  EXPECT_EQ(BatchesOf(options, 0), (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
}

TEST(BatchShardTest, EvaluationCountsEverySampleOnce) {
  for (const bool even : {true, false}) {
    for (const bool split : {true, false}) {
      for (int64_t world = 1; world <= 4; ++world) {
        for (int64_t n = 1; n <= 40; ++n) {
          const std::vector<int64_t> counted = CountedOf({.num_samples = n,
                                                          .batch_size = split ? 12 : 3,
                                                          .world_size = world,
                                                          .split_batches = split,
                                                          .even_batches = even});
          ASSERT_EQ(counted.size(), static_cast<size_t>(n)) << world << " ranks";
          for (int64_t i = 0; i < n; ++i) ASSERT_EQ(counted[static_cast<size_t>(i)], i);
        }
      }
    }
  }
}

at::Tensor Draw(at::Generator& generator, int64_t n) {
  return torch::randperm(n, generator, torch::kLong);
}

TEST(SamplerTest, SeedableOrderDependsOnTheEpochAlone) {
  Sampler sampler(100, SamplingOrder::kSeedable, 7);
  at::Generator generator = at::detail::createCPUGenerator(7 + 3);
  const at::Tensor expected = Draw(generator, 100);
  EXPECT_TRUE(torch::equal(sampler.Order(3), expected));
  sampler.Order(0);
  EXPECT_TRUE(torch::equal(sampler.Order(3), expected));
}

TEST(SamplerTest, RunningOrderGoesOnFromEpochToEpoch) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  std::vector<at::Tensor> draws;
  for (int i = 0; i < 6; ++i) draws.push_back(Draw(generator, 100));
  Sampler sampler(100, SamplingOrder::kRunning, 7);
  EXPECT_TRUE(torch::equal(sampler.Order(0), draws[0]));
  EXPECT_TRUE(torch::equal(sampler.Order(1), draws[2]));
  EXPECT_TRUE(torch::equal(sampler.Order(2), draws[4]));
  EXPECT_TRUE(torch::equal(sampler.Order(1), draws[2]));
  EXPECT_TRUE(torch::equal(Sampler(100, SamplingOrder::kRunning, 7).Order(2), draws[4]));
}

TEST(SamplerTest, SequentialOrder) {
  EXPECT_TRUE(torch::equal(Sampler(4, SamplingOrder::kSequential, 7).Order(5), torch::arange(4)));
}

TEST(RandomSplitTest, TakesTheHeldOutPartFromTheEnd) {
  accel::v1::Split spec;
  spec.set_evaluation_fraction(0.25);
  spec.set_seed(11);
  const auto parts = RandomSplit(10, spec);
  ASSERT_TRUE(parts.ok()) << parts.status();
  at::Generator generator = at::detail::createCPUGenerator(11);
  const at::Tensor order = Draw(generator, 10);
  EXPECT_TRUE(torch::equal(parts->train, order.narrow(0, 0, 8)));
  EXPECT_TRUE(torch::equal(parts->evaluation, order.narrow(0, 8, 2)));
  EXPECT_EQ(RandomSplit(3, spec).status().code(), absl::StatusCode::kInvalidArgument);
}

class DataLoaderTest : public testing::Test {
 protected:
  DataLoaderTest()
      : dataset_(torch::arange(10).to(torch::kFloat).unsqueeze(1), torch::arange(10)) {}

  static std::vector<int64_t> TargetsOf(const Batch& batch) {
    const at::Tensor targets = batch.targets.contiguous();
    return {targets.data_ptr<int64_t>(), targets.data_ptr<int64_t>() + targets.numel()};
  }

  static std::optional<Batch> NextOf(DataLoader& loader) {
    auto next = loader.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    return next.ok() ? *std::move(next) : std::nullopt;
  }

  const InMemoryDataset dataset_;
};

TEST_F(DataLoaderTest, GivesThisRanksBatches) {
  DataLoader loader(dataset_, {.batch_size = 4, .rank = 1, .world_size = 2, .shuffle = false});
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  ASSERT_TRUE(loader.StartEpoch(0, 0).ok());
  std::optional<Batch> batch = NextOf(loader);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(TargetsOf(*batch), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(batch->valid, 4);
  EXPECT_FALSE(batch->last);
  batch = NextOf(loader);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(TargetsOf(*batch), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(batch->samples, 4);
  EXPECT_EQ(batch->valid, 0);
  EXPECT_TRUE(batch->last);
  EXPECT_TRUE(torch::equal(batch->features.view({-1}), batch->targets.to(torch::kFloat)));
  EXPECT_FALSE(NextOf(loader).has_value());
  EXPECT_EQ(loader.batches_done(), 2);
}

TEST_F(DataLoaderTest, GoesOnWhereAnotherStoodForThatEpochOnly) {
  for (const bool seedable : {true, false}) {
    for (const int64_t workers : {0, 3}) {
      const LoaderOptions options = {.batch_size = 2,
                                     .rank = 1,
                                     .world_size = 2,
                                     .use_seedable_sampler = seedable,
                                     .data_seed = 5,
                                     .num_workers = workers};
      std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> seen;
      DataLoader loader(dataset_, options);
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        ASSERT_TRUE(loader.StartEpoch(epoch, 0).ok());
        while (const auto batch = NextOf(loader)) {
          seen[{epoch, loader.batches_done()}] = TargetsOf(*batch);
        }
      }
      EXPECT_EQ(seen.size(), 9u);
      DataLoader resumed(dataset_, options);
      ASSERT_TRUE(resumed.StartEpoch(1, 2).ok());
      EXPECT_EQ(resumed.batches_done(), 2);
      std::optional<Batch> batch = NextOf(resumed);
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(TargetsOf(*batch), (seen[{1, 3}]));
      // The last round of the ten samples has two: both are rank 0's.
      EXPECT_EQ(batch->valid, 0);
      EXPECT_FALSE(NextOf(resumed).has_value());
      ASSERT_TRUE(resumed.StartEpoch(2, 0).ok());
      for (int64_t b = 1; b <= 3; ++b) {
        batch = NextOf(resumed);
        ASSERT_TRUE(batch.has_value());
        EXPECT_EQ(TargetsOf(*batch), (seen[{2, b}]));
      }
    }
  }
}

}  // namespace
}  // namespace accel::engine
