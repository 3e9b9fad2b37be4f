#include "core/engine/data/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace accel::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Batches whose only target is their number.
class NumberedBatches final : public BatchSource {
 public:
  explicit NumberedBatches(bool random_access = true) : random_access_(random_access) {}

  std::optional<int64_t> batches() const override { return std::nullopt; }
  bool random_access() const override { return random_access_; }
  absl::Status StartEpoch(int64_t, int64_t) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<Batch>> Make(int64_t b) override {
    absl::MutexLock lock(&mutex_);
    made_.push_back(b);
    if (b == fails_at) return absl::NotFoundError("batch is gone");
    if (b == throws_at) throw std::runtime_error("no batch");
    if (b >= end) return std::nullopt;
    return Batch{torch::tensor({b}), torch::tensor({b}), 1, 1};
  }
  std::vector<int64_t> made() {
    absl::MutexLock lock(&mutex_);
    return made_;
  }

  int64_t end = 1000;
  int64_t fails_at = -1;
  int64_t throws_at = -1;

 private:
  const bool random_access_;
  absl::Mutex mutex_;
  std::vector<int64_t> made_ ABSL_GUARDED_BY(mutex_);
};

// Numbers of the batches up to the end or an error, which goes to `status`.
std::vector<int64_t> Rest(Prefetcher& prefetcher, absl::Status* status = nullptr) {
  std::vector<int64_t> numbers;
  for (;;) {
    auto next = prefetcher.Next();
    if (!next.ok() && status != nullptr) *status = next.status();
    if (!next.ok() || !next->has_value()) return numbers;
    numbers.push_back((*next)->targets.item<int64_t>());
  }
}

TEST(PrefetcherTest, GivesBatchesInTheirOrder) {
  for (const int64_t workers : {1, 2, 8}) {
    NumberedBatches source;
    Prefetcher prefetcher(source, 3, 40, {.workers = workers, .depth = workers * 2});
    std::vector<int64_t> wanted;
    for (int64_t b = 3; b < 40; ++b) wanted.push_back(b);
    EXPECT_EQ(Rest(prefetcher), wanted);
    EXPECT_THAT(Rest(prefetcher), IsEmpty());
  }
}

TEST(PrefetcherTest, MakesNoMoreThanItsDepthAhead) {
  NumberedBatches source;
  {
    Prefetcher prefetcher(source, 0, 1000, {.workers = 4, .depth = 6});
    ASSERT_TRUE(prefetcher.Next().ok());
  }
  EXPECT_LE(source.made().size(), 7);
}

TEST(PrefetcherTest, SourceWithoutRandomAccessIsReadInOrder) {
  NumberedBatches source(/*random_access=*/false);
  source.end = 5;
  Prefetcher prefetcher(source, 0, 1000, {.workers = 4, .depth = 3});
  EXPECT_THAT(Rest(prefetcher), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Rest(prefetcher), IsEmpty());
  EXPECT_THAT(source.made(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(PrefetcherTest, ErrorComesInItsPlaceAndIsTheLastThing) {
  for (const bool throws : {false, true}) {
    NumberedBatches source;
    (throws ? source.throws_at : source.fails_at) = 4;
    Prefetcher prefetcher(source, 2, 1000, {.workers = 3, .depth = 6});
    absl::Status status;
    EXPECT_THAT(Rest(prefetcher, &status), ElementsAre(2, 3));
    EXPECT_THAT(status.message(), HasSubstr(throws ? "batch 4: no batch" : "batch is gone"));
    EXPECT_THAT(Rest(prefetcher), IsEmpty());
  }
}

TEST(PrefetcherTest, NothingToMake) {
  NumberedBatches source;
  Prefetcher prefetcher(source, 5, 5, {.workers = 2, .depth = 2});
  EXPECT_THAT(Rest(prefetcher), IsEmpty());
  EXPECT_THAT(source.made(), IsEmpty());
}

}  // namespace
}  // namespace accel::engine
