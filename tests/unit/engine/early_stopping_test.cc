#include "core/engine/loop/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace accel::engine {
namespace {

using accel::v1::LoopSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

LoopSpec Patience(const std::string& metric, int32_t patience, double min_delta = 0) {
  LoopSpec loop;
  auto* condition = loop.add_early_stopping();
  condition->set_metric(metric);
  condition->set_patience(patience);
  condition->set_min_delta(min_delta);
  return loop;
}

// Shows the values one after the other; the number of the one that ends training, from 1, or 0.
int EndsAt(EarlyStopping& conditions, const std::string& metric, std::vector<double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<int>(i + 1);
    if (conditions.Observe(metric, values[i], number * 10).has_value()) return number;
  }
  return 0;
}

int EndsAt(const LoopSpec& loop, std::vector<double> values) {
  EarlyStopping conditions(loop);
  return EndsAt(conditions, loop.early_stopping(0).metric(), std::move(values));
}

TEST(EarlyStoppingTest, PatienceCountsValuesThatAreNotBetter) {
  EXPECT_EQ(EndsAt(Patience("eval/loss", 2), {3, 2, 2.5, 1, 1, 1}), 6);
  EXPECT_EQ(EndsAt(Patience("eval/loss", 1), {3, 2, 2}), 3);
  EXPECT_EQ(EndsAt(Patience("eval/loss", 2), {3, 2, 1, 0, -1}), 0);
}

TEST(EarlyStoppingTest, SmallChangesAreNotBetter) {
  EXPECT_EQ(EndsAt(Patience("eval/loss", 2, 0.5), {3, 2.5, 2.4, 2.3, 2.2}), 0);
  EXPECT_EQ(EndsAt(Patience("eval/loss", 2, 0.5), {3, 2.6, 2.5, 2.4}), 3);
  // Compared with the best, not with the value before.
  EXPECT_EQ(EndsAt(Patience("eval/loss", 3, 0.5), {3, 2.8, 2.6, 2.4, 2.2, 2.0, 1.9}), 7);
}

TEST(EarlyStoppingTest, AccuracyIsBetterWhenGreaterUnlessTheModeSaysOtherwise) {
  EXPECT_EQ(EndsAt(Patience("eval/accuracy", 2), {0.1, 0.2, 0.3, 0.4}), 0);
  EXPECT_EQ(EndsAt(Patience("eval/accuracy", 2), {0.4, 0.3, 0.2}), 3);
  LoopSpec least = Patience("eval/accuracy", 2);
  least.mutable_early_stopping(0)->set_mode("min");
  EXPECT_EQ(EndsAt(least, {0.1, 0.2, 0.3}), 3);
}

TEST(EarlyStoppingTest, ThresholdEndsAtOnce) {
  LoopSpec loop;
  loop.add_early_stopping()->set_metric("train/loss");
  loop.mutable_early_stopping(0)->set_threshold(0.5);
  EXPECT_EQ(EndsAt(loop, {2, 0.6, 0.5, 0.4}), 3);
  loop.mutable_early_stopping(0)->set_mode("max");
  EXPECT_EQ(EndsAt(loop, {0.1, 0.4, kNan, 0.7}), 4);
}

TEST(EarlyStoppingTest, ValuesThatAreNotFiniteAreNeverBetter) {
  EXPECT_EQ(EndsAt(Patience("train/loss", 2), {kNan, -kInfinity, 1}), 2);
  EXPECT_EQ(EndsAt(Patience("train/loss", 2), {kNan, 1, kNan, 0.5, -kInfinity}), 0);
  EarlyStopping conditions(Patience("train/loss", 2));
  conditions.Observe("train/loss", kNan, 1);
  const auto stopped = conditions.Observe("train/loss", kNan, 2);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_FALSE(stopped->has_best_value());
  EXPECT_EQ(stopped->reason(), "train/loss has not been finite for 2 values");
}

TEST(EarlyStoppingTest, SaysWhy) {
  LoopSpec loop = Patience("eval/loss", 2);
  auto* accuracy = loop.add_early_stopping();
  accuracy->set_metric("eval/accuracy");
  accuracy->set_threshold(0.9);
  EarlyStopping conditions(loop);
  EXPECT_TRUE(conditions.Watches("eval/loss"));
  EXPECT_FALSE(conditions.Watches("train/loss"));
  EXPECT_FALSE(conditions.Observe("eval/loss", 0.25, 10).has_value());
  EXPECT_FALSE(conditions.Observe("eval/loss", 0.5, 20).has_value());
  EXPECT_FALSE(conditions.Observe("eval/samples", 0, 20).has_value());
  auto stopped = conditions.Observe("eval/accuracy", 0.95, 20);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->reason(), "eval/accuracy has reached 0.9 with 0.95");
  stopped = conditions.Observe("eval/loss", 0.75, 30);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->metric(), "eval/loss");
  EXPECT_EQ(stopped->value(), 0.75);
  EXPECT_EQ(stopped->best_value(), 0.25);
  EXPECT_EQ(stopped->best_step(), 10);
  EXPECT_EQ(stopped->reason(), "eval/loss has not been better than 0.25 (step 10) for 2 values");
}

TEST(EarlyStoppingTest, GoesOnFromWhatWasSaved) {
  const LoopSpec loop = Patience("eval/loss", 3);
  EarlyStopping before(loop);
  EXPECT_EQ(EndsAt(before, "eval/loss", {2, 1, 1.5}), 0);
  const auto saved = before.Section().save();
  ASSERT_TRUE(saved.ok());
  EarlyStopping after(loop);
  ASSERT_TRUE(after.Section().restore(*saved).ok());
  EXPECT_EQ(EndsAt(after, "eval/loss", {1.5, 1.5}), 2);

  // Another metric or direction begins anew.
  LoopSpec greatest = loop;
  greatest.mutable_early_stopping(0)->set_mode("max");
  EarlyStopping other(greatest);
  ASSERT_TRUE(other.Section().restore(*saved).ok());
  EXPECT_EQ(EndsAt(other, "eval/loss", {1.5, 1.5, 1.5}), 0);
}

}  // namespace
}  // namespace accel::engine
