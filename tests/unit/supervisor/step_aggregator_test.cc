#include "server/supervisor/step_aggregator.h"

#include <cmath>
#include <limits>

#include "google/protobuf/util/time_util.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::StepReport;

StepReport Report(int64_t step, double loss, int64_t samples, double seconds, int64_t time_us) {
  StepReport report;
  report.set_step(step);
  report.set_epoch(2);
  report.set_loss(loss);
  report.set_samples(samples);
  report.set_learning_rate(0.125);
  report.set_step_seconds(seconds);
  report.set_time_us(time_us);
  return report;
}

TEST(StepAggregatorTest, MergesOnceAllRanksHaveReported) {
  StepAggregator steps(2);
  StepReport first = Report(7, 1.0, 30, 0.5, 2000000);
  first.set_grad_norm(1.5);
  EXPECT_FALSE(steps.Add(1, Report(7, 3.0, 10, 0.25, 3000000)).has_value());
  const auto record = steps.Add(0, first);
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->step(), 7);
  EXPECT_FALSE(record->has_rank());
  EXPECT_EQ(google::protobuf::util::TimeUtil::TimestampToMicroseconds(record->time()), 3000000);
  const auto& values = record->values();
  EXPECT_EQ(values.size(), 6u);
  EXPECT_DOUBLE_EQ(values.at("train/loss").number(), 1.5);
  EXPECT_DOUBLE_EQ(values.at("train/learning_rate").number(), 0.125);
  EXPECT_DOUBLE_EQ(values.at("train/epoch").number(), 2);
  EXPECT_DOUBLE_EQ(values.at("train/grad_norm").number(), 1.5);
  EXPECT_DOUBLE_EQ(values.at("perf/step_seconds").number(), 0.5);
  EXPECT_DOUBLE_EQ(values.at("perf/samples_per_second").number(), 80);
}

TEST(StepAggregatorTest, SaysHowTheLossIsScaled) {
  StepAggregator steps(2);
  StepReport report = Report(7, 1, 1, 1, 1);
  report.mutable_loss_scaling()->set_scale(1024);
  report.mutable_loss_scaling()->set_step_was_skipped(true);
  report.mutable_loss_scaling()->set_skipped_steps(3);
  steps.Add(0, report);
  const auto record = steps.Add(1, report);
  EXPECT_DOUBLE_EQ(record->values().at("train/loss_scale").number(), 1024);
  EXPECT_DOUBLE_EQ(record->values().at("train/step_was_skipped").number(), 1);
  EXPECT_DOUBLE_EQ(record->values().at("train/skipped_steps").number(), 3);
}

TEST(StepAggregatorTest, RanksMayBeStepsApart) {
  StepAggregator steps(2);
  EXPECT_FALSE(steps.Add(0, Report(1, 1, 1, 1, 1)).has_value());
  EXPECT_FALSE(steps.Add(0, Report(2, 1, 1, 1, 1)).has_value());
  EXPECT_EQ(steps.Add(1, Report(1, 1, 1, 1, 1))->step(), 1);
  EXPECT_EQ(steps.Add(1, Report(2, 1, 1, 1, 1))->step(), 2);
}

TEST(StepAggregatorTest, OneRankReportsAtOnce) {
  StepAggregator steps(1);
  const auto record = steps.Add(0, Report(1, 4, 0, 0, 1));
  // No samples and no time: a plain mean, and no rate.
  EXPECT_DOUBLE_EQ(record->values().at("train/loss").number(), 4);
  EXPECT_FALSE(record->values().contains("perf/samples_per_second"));
  EXPECT_FALSE(record->values().contains("train/grad_norm"));
}

TEST(StepAggregatorTest, LossThatIsNoNumberStaysSo) {
  StepAggregator steps(2);
  steps.Add(0, Report(1, std::numeric_limits<double>::quiet_NaN(), 1, 1, 1));
  EXPECT_TRUE(std::isnan(steps.Add(1, Report(1, 1, 1, 1, 1))->values().at("train/loss").number()));
}

}  // namespace
}  // namespace accel::supervisor
