#include "core/engine/data/sample_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/engine/data/stream_batches.h"
#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int64_t> Values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

class SampleStreamTest : public DataFilesTest {
 protected:
  // A csv file of `n` rows whose feature and class are their number.
  void WriteNumbers(int64_t n) {
    std::string text;
    for (int64_t i = 0; i < n; ++i) absl::StrAppend(&text, i, ",", i, "\n");
    spec_.set_file(Write("t.csv", text));
    spec_.mutable_csv();
  }

  std::unique_ptr<SampleStream> Open(TargetKind kind = TargetKind::kClass) {
    auto stream = OpenSampleStream(spec_, kind, roots_);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  // Targets of the whole stream, read in parts of `count`.
  static std::vector<int64_t> ReadAll(SampleStream& stream, int64_t count) {
    std::vector<int64_t> all;
    for (;;) {
      const auto part = stream.Read(count);
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok() || !part->features.defined()) return all;
      const std::vector<int64_t> values = Values(part->targets);
      EXPECT_LE(values.size(), static_cast<size_t>(count));
      all.insert(all.end(), values.begin(), values.end());
    }
  }

  // Targets of each batch of a rank, and how many of them count.
  std::vector<std::pair<std::vector<int64_t>, int64_t>> Batches(const ShardOptions& shard,
                                                                int64_t skip = 0) {
    StreamBatches batches(
        [this](int64_t) { return OpenSampleStream(spec_, TargetKind::kClass, roots_); }, shard,
        ClassCheck("t.csv", TargetKind::kClass, 1000));
    EXPECT_TRUE(batches.StartEpoch(0, skip).ok());
    std::vector<std::pair<std::vector<int64_t>, int64_t>> made;
    for (int64_t b = skip;; ++b) {
      const auto batch = batches.Make(b);
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) return made;
      made.emplace_back(Values((*batch)->targets), (*batch)->valid);
    }
  }

  accel::v1::Dataset spec_;
};

using Parts = std::vector<std::pair<std::vector<int64_t>, int64_t>>;

TEST_F(SampleStreamTest, GivesEveryRowOnceAndThenNothing) {
  WriteNumbers(11);
  const auto stream = Open();
  EXPECT_THAT(ReadAll(*stream, 4), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(ReadAll(*stream, 4), IsEmpty());
}

TEST_F(SampleStreamTest, ErrorsNameTheirPlaceInTheFile) {
  spec_.mutable_csv();
  spec_.set_file(Write("t.csv", "1,1\n2,2\n\n3,x\n"));
  auto stream = Open();
  EXPECT_TRUE(stream->Read(2).ok());
  ExpectMalformed(stream->Read(2).status(), "row 4 column 2");

  spec_.set_file(Write("t.csv", "1,1\n2,2\n3e38,3\n"));
  spec_.mutable_normalization()->set_scale(1000);
  stream = Open();
  EXPECT_TRUE(stream->Read(2).ok());
  ExpectMalformed(stream->Read(2).status(), "the features of sample 2 have values");
  EXPECT_EQ(OpenSampleStream(accel::v1::Dataset(), TargetKind::kClass, roots_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SampleStreamTest, ClassesOfTheModelOnly) {
  WriteNumbers(6);
  const auto check = ClassCheck("data/t.csv", TargetKind::kClass, 5);
  const auto stream = Open();
  EXPECT_TRUE(check(*stream->Read(4), 0).ok());
  ExpectMalformed(check(*stream->Read(4), 4), "sample 5 has class 5, the model has 5");
  const auto tokens = ClassCheck("t", TargetKind::kNextToken, 256);
  const Examples windows{torch::tensor({{300, 1}}), torch::tensor({{1, 2}})};
  ExpectMalformed(tokens(windows, 7), "sample 7 has token 300, the model has 256");
}

TEST_F(SampleStreamTest, ShuffledStreamIsAPermutationThatTheSeedChooses) {
  WriteNumbers(50);
  const auto order = [&](int64_t buffer, uint64_t seed, int64_t count) {
    return ReadAll(*ShuffleStream(Open(), buffer, seed), count);
  };
  const std::vector<int64_t> drawn = order(8, 3, 7);
  EXPECT_EQ(order(8, 3, 50), drawn) << "the size of the reads does not matter";
  EXPECT_NE(order(8, 4, 7), drawn);
  std::vector<int64_t> sorted = drawn;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, ReadAll(*Open(), 50));
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_LT(drawn[i], static_cast<int64_t>(i) + 8) << "none comes before it can be in the buffer";
  }
  EXPECT_EQ(order(1000, 3, 7).size(), 50) << "a buffer larger than the file";
}

// The rounds of accelerate's IterableDatasetShard: 10 samples, batch 4, two ranks.
TEST_F(SampleStreamTest, RoundsAreDealtOutAndTheLastOneIsCompleted) {
  WriteNumbers(10);
  ShardOptions shard{.batch_size = 4, .world_size = 2};
  EXPECT_EQ(Batches(shard), (Parts{{{0, 1, 2, 3}, 4}, {{8, 9, 0, 1}, 2}}));
  EXPECT_EQ(Batches(shard, 1), (Parts{{{8, 9, 0, 1}, 2}})) << "skipped batches are read";
  shard.rank = 1;
  EXPECT_EQ(Batches(shard), (Parts{{{4, 5, 6, 7}, 4}, {{2, 3, 4, 5}, 0}}));
  shard.split_batches = true;
  EXPECT_EQ(Batches(shard), (Parts{{{2, 3}, 2}, {{6, 7}, 2}, {{0, 1}, 0}}));
  shard.drop_last = true;
  EXPECT_EQ(Batches(shard), (Parts{{{2, 3}, 2}, {{6, 7}, 2}}));
  WriteNumbers(2);
  EXPECT_EQ(Batches({.batch_size = 4, .rank = 2, .world_size = 3}), (Parts{{{0, 1, 0, 1}, 0}}));
}

TEST_F(SampleStreamTest, WithoutEvenBatchesTheLastRoundIsShorterOrLeftOut) {
  WriteNumbers(15);
  ShardOptions shard{.batch_size = 4, .world_size = 2, .even_batches = false};
  EXPECT_EQ(Batches(shard), (Parts{{{0, 1, 2, 3}, 4}, {{8, 9, 10, 11}, 4}}));
  shard.rank = 1;
  EXPECT_EQ(Batches(shard), (Parts{{{4, 5, 6, 7}, 4}, {{12, 13, 14}, 3}}));
  WriteNumbers(12);  // nothing of the second round is rank 1's
  EXPECT_EQ(Batches(shard), (Parts{{{4, 5, 6, 7}, 4}}));
  shard.rank = 0;
  EXPECT_EQ(Batches(shard), (Parts{{{0, 1, 2, 3}, 4}}));
}

TEST_F(SampleStreamTest, OneRankKeepsItsShortBatch) {
  WriteNumbers(5);
  EXPECT_EQ(Batches({.batch_size = 4}), (Parts{{{0, 1, 2, 3}, 4}, {{4}, 1}}));
}

}  // namespace
}  // namespace accel::engine
