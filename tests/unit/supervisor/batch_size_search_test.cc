#include "server/supervisor/batch_size_search.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using accel::v1::Failure;
using accel::v1::JobSpec;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

JobSpec Spec(int batch_size) {
  JobSpec spec;
  spec.mutable_data()->set_batch_size(batch_size);
  spec.mutable_loop()->mutable_find_executable_batch_size();
  return spec;
}

Failure Fails(Failure::Cause cause) {
  Failure failure;
  failure.set_cause(cause);
  failure.set_message("rank 0 failed before the first step: no memory");
  return failure;
}

// Runs out of memory at every size.
std::vector<int> AllSizes(BatchSizeSearch& search) {
  std::vector<int> sizes{search.batch_size()};
  while (search.Reduce(Fails(Failure::OUT_OF_MEMORY), 0)) sizes.push_back(search.batch_size());
  return sizes;
}

TEST(BatchSizeSearchTest, TakesTheSizesOfAccelerate) {
  BatchSizeSearch search(Spec(128));
  EXPECT_THAT(AllSizes(search),
              ElementsAre(128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36, 32, 28, 25, 22, 19, 17,
                          15, 13, 11, 9, 8, 7, 6, 5, 4, 3, 2, 1));
}

TEST(BatchSizeSearchTest, TheFactorIsTheJobs) {
  JobSpec spec = Spec(20);
  spec.mutable_loop()->mutable_find_executable_batch_size()->set_reduce_factor(0.5);
  BatchSizeSearch search(spec);
  EXPECT_THAT(AllSizes(search), ElementsAre(20, 10, 5, 2, 1));
}

TEST(BatchSizeSearchTest, OtherFailuresPassThrough) {
  BatchSizeSearch search(Spec(8));
  EXPECT_TRUE(search.Reduce(Fails(Failure::OUT_OF_MEMORY), 0));
  EXPECT_FALSE(search.Reduce(Fails(Failure::DATA), 0));
  EXPECT_EQ(search.batch_size(), 7);
  EXPECT_EQ(search.Explain(Fails(Failure::DATA)).message(),
            "rank 0 failed before the first step: no memory");
}

TEST(BatchSizeSearchTest, WithoutASearchThereIsOneSize) {
  JobSpec spec = Spec(8);
  spec.mutable_loop()->clear_find_executable_batch_size();
  BatchSizeSearch search(spec);
  EXPECT_FALSE(search.active());
  EXPECT_FALSE(search.Reduce(Fails(Failure::OUT_OF_MEMORY), 0));
}

TEST(BatchSizeSearchTest, NeverFittedIsToldFromFailedLater) {
  BatchSizeSearch never(Spec(3));
  AllSizes(never);
  const Failure failure = never.Explain(Fails(Failure::OUT_OF_MEMORY));
  EXPECT_EQ(failure.cause(), Failure::OUT_OF_MEMORY);
  EXPECT_THAT(failure.message(), AllOf(HasSubstr("reached zero; tried 3 2 1; never fitted"),
                                       HasSubstr("last: rank 0 failed")));
  BatchSizeSearch later(Spec(2));
  EXPECT_TRUE(later.Reduce(Fails(Failure::OUT_OF_MEMORY), 412));
  EXPECT_FALSE(later.Reduce(Fails(Failure::OUT_OF_MEMORY), 0));
  EXPECT_THAT(later.Explain(Fails(Failure::OUT_OF_MEMORY)).message(),
              HasSubstr("tried 2 1; failed later: 2 trained 412 steps before"));
}

}  // namespace
}  // namespace accel::supervisor
