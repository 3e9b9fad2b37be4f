#include "core/engine/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace accel::engine {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

accel::v1::LossSpec CrossEntropy(double label_smoothing = 0) {
  accel::v1::LossSpec loss;
  loss.mutable_cross_entropy()->set_label_smoothing(label_smoothing);
  return loss;
}

accel::v1::LossSpec Mse() {
  accel::v1::LossSpec loss;
  loss.mutable_mse();
  return loss;
}

accel::v1::LossSpec NextToken() {
  accel::v1::LossSpec loss;
  loss.mutable_next_token();
  return loss;
}

at::Tensor Logits() { return torch::tensor({{2.f, 0.f}, {0.f, 1.f}, {3.f, 0.f}}); }
at::Tensor Classes() { return torch::tensor({0, 1, 1}, torch::kLong); }

TEST(LossTest, CrossEntropyIsTheMeanOverSamples) {
  const double expected =
      (std::log1p(std::exp(-2.)) + std::log1p(std::exp(-1.)) + std::log1p(std::exp(3.))) / 3;
  EXPECT_NEAR(ComputeLoss(CrossEntropy(), Logits(), Classes()).item<double>(), expected, 1e-6);
  // Smoothing by s moves s / 2 of the weight to the other of two classes.
  const double one = std::log1p(std::exp(-2.)), other = std::log1p(std::exp(2.));
  EXPECT_NEAR(ComputeLoss(CrossEntropy(0.2), Logits().narrow(0, 0, 1), Classes().narrow(0, 0, 1))
                  .item<double>(),
              0.9 * one + 0.1 * other, 1e-6);
}

TEST(LossTest, MseNeverBroadcasts) {
  const at::Tensor output = torch::tensor({{1.f}, {3.f}});
  const at::Tensor targets = torch::tensor({0.f, 1.f});
  EXPECT_EQ(ComputeLoss(Mse(), output, targets).item<double>(), 2.5);
}

TEST(LossTest, NextTokenIsTheMeanOverPositions) {
  const at::Tensor output = torch::zeros({2, 3, 4});
  const at::Tensor targets = torch::ones({2, 3}, torch::kLong);
  EXPECT_NEAR(ComputeLoss(NextToken(), output, targets).item<double>(), std::log(4.), 1e-6);
}

TEST(LossTest, EvaluationCountsValidSamplesOnly) {
  EvaluationSums sums;
  AddToEvaluation(CrossEntropy(), Logits(), Classes(), 3, &sums);
  AddToEvaluation(CrossEntropy(), Logits(), Classes(), 1, &sums);
  AddToEvaluation(CrossEntropy(), Logits(), Classes(), 0, &sums);
  EXPECT_EQ(sums.count, 4);
  EXPECT_EQ(sums.correct, 3);
  const double expected =
      (2 * std::log1p(std::exp(-2.)) + std::log1p(std::exp(-1.)) + std::log1p(std::exp(3.))) / 4;
  EXPECT_THAT(
      EvaluationMetrics(CrossEntropy(), sums),
      ElementsAre(Pair("eval/accuracy", 0.75), Pair("eval/loss", DoubleNear(expected, 1e-6))));
}

TEST(LossTest, PerplexityIsOverTokens) {
  EvaluationSums sums;
  AddToEvaluation(NextToken(), torch::zeros({2, 3, 4}), torch::ones({2, 3}, torch::kLong), 1,
                  &sums);
  EXPECT_EQ(sums.count, 3);
  EXPECT_THAT(EvaluationMetrics(NextToken(), sums),
              ElementsAre(Pair("eval/loss", DoubleNear(std::log(4.), 1e-6)),
                          Pair("eval/perplexity", DoubleNear(4, 1e-5))));
}

TEST(LossTest, SumsOverWhatCounts) {
  const at::Tensor classes = torch::tensor({0, -100, 1}, torch::kLong);
  const double sum = std::log1p(std::exp(-2.)) + std::log1p(std::exp(3.));
  EXPECT_EQ(CountItems(CrossEntropy(), classes), 2);
  EXPECT_NEAR(ComputeLoss(CrossEntropy(), Logits(), classes).item<double>(), sum / 2, 1e-6);
  EXPECT_NEAR(ComputeLoss(CrossEntropy(), Logits(), classes, LossReduction::kSum).item<double>(),
              sum, 1e-6);
  accel::v1::LossSpec named = CrossEntropy();
  named.mutable_cross_entropy()->set_ignore_index(1);
  EXPECT_EQ(CountItems(named, Classes()), 1);
  EXPECT_NEAR(ComputeLoss(named, Logits(), Classes()).item<double>(), std::log1p(std::exp(-2.)),
              1e-6);
  accel::v1::LossSpec tokens = NextToken();
  EXPECT_EQ(CountItems(tokens, torch::zeros({2, 3}, torch::kLong)), 6);
  tokens.mutable_next_token()->set_ignore_index(0);
  EXPECT_EQ(CountItems(tokens, torch::zeros({2, 3}, torch::kLong)), 0);
  EXPECT_EQ(CountItems(Mse(), torch::zeros({2, 3})), 6);
  EXPECT_EQ(ComputeLoss(Mse(), torch::ones({2, 3}), torch::zeros({2, 3}), LossReduction::kSum)
                .item<double>(),
            6);
}

TEST(LossTest, EvaluationLeavesOutWhatDoesNotCount) {
  const at::Tensor classes = torch::tensor({0, -100, 1}, torch::kLong);
  EvaluationSums sums;
  AddToEvaluation(CrossEntropy(), Logits(), classes, 3, &sums);
  AddToEvaluation(CrossEntropy(), Logits(), torch::full({3}, -100, torch::kLong), 3, &sums);
  EXPECT_EQ(sums.count, 2);
  EXPECT_EQ(sums.correct, 1);
  EXPECT_NEAR(sums.loss_sum, std::log1p(std::exp(-2.)) + std::log1p(std::exp(3.)), 1e-6);
}

TEST(LossTest, NothingCountedGivesNoMetrics) {
  EXPECT_THAT(EvaluationMetrics(Mse(), {}), IsEmpty());
}

TEST(LossTest, ChecksTargets) {
  const InMemoryDataset classes(torch::ones({3, 2}), Classes());
  const InMemoryDataset ignored(torch::ones({3, 2}), torch::tensor({0, 9, 1}, torch::kLong), 9);
  EXPECT_TRUE(CheckTargets(ignored, CrossEntropy(), {2}).ok());
  const InMemoryDataset numbers(torch::ones({3, 2}), torch::ones({3}));
  const InMemoryDataset pairs(torch::ones({3, 2}), torch::ones({3, 2}));
  const WindowDataset tokens(torch::tensor({1, 9, 3}, torch::kByte), 2, 1);
  EXPECT_TRUE(CheckTargets(classes, CrossEntropy(), {2}).ok());
  EXPECT_EQ(CheckTargets(classes, CrossEntropy(), {1}).message(),
            "the data has class 1, the model's outputs are for 0 to 0");
  EXPECT_FALSE(CheckTargets(classes, CrossEntropy(), {2, 2}).ok());
  EXPECT_FALSE(CheckTargets(classes, Mse(), {1}).ok());
  EXPECT_TRUE(CheckTargets(numbers, Mse(), {1}).ok());
  EXPECT_EQ(CheckTargets(numbers, Mse(), {2}).message(),
            "loss.mse needs targets of the output's shape [2], those of the data have shape []");
  EXPECT_TRUE(CheckTargets(pairs, Mse(), {2}).ok());
  EXPECT_FALSE(CheckTargets(pairs, Mse(), {1}).ok());
  EXPECT_TRUE(CheckTargets(tokens, NextToken(), {2, 10}).ok());
  EXPECT_EQ(CheckTargets(tokens, NextToken(), {2, 9}).message(),
            "the data has token 9, the model's outputs are for 0 to 8");
}

}  // namespace
}  // namespace accel::engine
