#include "core/engine/distributed/local_sgd.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

// A parameter of three values that is rank + 1 everywhere.
at::Tensor OwnParameter(const Communicator& communicator) {
  return torch::full({3}, communicator.rank() + 1.f).set_requires_grad(true);
}

TEST(LocalSgdTest, AveragesAtTheEndOfEachPeriod) {
  RunRanks(3, [](Communicator& communicator) {
    at::Tensor parameter = OwnParameter(communicator);
    LocalSgd local(2, {parameter}, communicator);
    local.OnStep(1);
    EXPECT_TRUE(local.apart());
    EXPECT_EQ(parameter[0].item<float>(), communicator.rank() + 1.f);
    local.OnStep(2);
    EXPECT_FALSE(local.apart());
    EXPECT_TRUE(at::equal(parameter.detach(), torch::full({3}, 2.f)));
    EXPECT_TRUE(parameter.requires_grad());
  });
}

TEST(LocalSgdTest, MeansForAWhile) {
  RunRanks(2, [](Communicator& communicator) {
    at::Tensor parameter = OwnParameter(communicator);
    LocalSgd local(4, {parameter}, communicator);
    local.OnStep(1);
    {
      const LocalSgd::Averaged averaged(local);
      EXPECT_TRUE(at::equal(parameter.detach(), torch::full({3}, 1.5f)));
      EXPECT_EQ(averaged.own()[0][0].item<float>(), communicator.rank() + 1.f);
      EXPECT_TRUE(averaged.apart());
    }
    EXPECT_TRUE(at::equal(parameter.detach(), torch::full({3}, communicator.rank() + 1.f)));
    EXPECT_TRUE(local.apart());
    local.Average();
    const LocalSgd::Averaged averaged(local);
    EXPECT_FALSE(averaged.apart());
    EXPECT_EQ(averaged.own()[0][0].item<float>(), 1.5f);
  });
}

}  // namespace
}  // namespace accel::engine
