#include "core/engine/optim/clipping.h"

#include <gtest/gtest.h>

namespace accel::engine {
namespace {

std::vector<at::Tensor> ParametersWithGradients() {
  std::vector<at::Tensor> parameters{at::zeros({2}).requires_grad_(true),
                                     at::zeros({1}).requires_grad_(true),
                                     at::zeros({1}).requires_grad_(true)};
  parameters[0].mutable_grad() = at::tensor({2.0f, 3.0f});
  parameters[1].mutable_grad() = at::tensor({-6.0f});
  return parameters;
}

TEST(Clipping, NormIsOverAllGradientsAndScalesThem) {
  const auto parameters = ParametersWithGradients();
  EXPECT_FLOAT_EQ(ClipGradNorm(parameters, 3.5), 7);
  EXPECT_TRUE(at::allclose(parameters[0].grad(), at::tensor({1.0f, 1.5f})));
  EXPECT_TRUE(at::allclose(parameters[1].grad(), at::tensor({-3.0f})));
  EXPECT_FALSE(parameters[2].grad().defined());
}

TEST(Clipping, SmallGradientsStay) {
  const auto parameters = ParametersWithGradients();
  EXPECT_FLOAT_EQ(ClipGradNorm(parameters, 100), 7);
  EXPECT_TRUE(at::equal(parameters[0].grad(), at::tensor({2.0f, 3.0f})));
  EXPECT_EQ(ClipGradNorm({}, 1), 0);
}

TEST(Clipping, ValueBoundsEachGradient) {
  const auto parameters = ParametersWithGradients();
  ClipGradValue(parameters, 2.5);
  EXPECT_TRUE(at::equal(parameters[0].grad(), at::tensor({2.0f, 2.5f})));
  EXPECT_TRUE(at::equal(parameters[1].grad(), at::tensor({-2.5f})));
}

}  // namespace
}  // namespace accel::engine
