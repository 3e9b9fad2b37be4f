#include "core/engine/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace accel::engine {
namespace {

TEST(Schedule, ConstantIsTheBaseRate) {
  Schedule schedule({}, 0.5, 10, 1);
  EXPECT_EQ(schedule.LearningRate(), 0.5);
  for (int i = 0; i < 20; ++i) schedule.Advance();
  EXPECT_EQ(schedule.LearningRate(), 0.5);
}

TEST(Schedule, LinearWarmsUpAndDecaysToZero) {
  accel::v1::ScheduleSpec spec;
  spec.mutable_linear()->set_warmup_steps(4);
  const Schedule schedule(spec, 1.0, /*job_steps=*/12, 1);
  EXPECT_EQ(schedule.Factor(0), 0);
  EXPECT_EQ(schedule.Factor(1), 0.25);
  EXPECT_EQ(schedule.Factor(4), 1);
  EXPECT_EQ(schedule.Factor(8), 0.5);
  EXPECT_EQ(schedule.Factor(12), 0);
  EXPECT_EQ(schedule.Factor(13), 0);
}

TEST(Schedule, CosineFallsHalfAWaveAndStaysAtZero) {
  accel::v1::ScheduleSpec spec;
  spec.mutable_cosine()->set_total_steps(8);
  const Schedule schedule(spec, 1.0, /*job_steps=*/1000, 1);
  EXPECT_EQ(schedule.Factor(0), 1);
  EXPECT_NEAR(schedule.Factor(2), 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(schedule.Factor(4), 0.5, 1e-15);
  EXPECT_EQ(schedule.Factor(8), 0);
  EXPECT_EQ(schedule.Factor(12), 0);
}

TEST(Schedule, AdvancesByTheWorldSize) {
  accel::v1::ScheduleSpec spec;
  spec.mutable_linear()->set_total_steps(12);
  Schedule schedule(spec, 3.0, 12, /*steps_per_update=*/2);
  schedule.Advance();
  schedule.Advance();
  EXPECT_EQ(schedule.step(), 4);
  EXPECT_EQ(schedule.LearningRate(), 2.0);
}

TEST(Schedule, WarmupLongerThanTheJobNeverDivides) {
  accel::v1::ScheduleSpec spec;
  spec.mutable_linear()->set_warmup_steps(10);
  const Schedule schedule(spec, 1.0, /*job_steps=*/5, 1);
  EXPECT_EQ(schedule.Factor(4), 0.4);
  EXPECT_EQ(schedule.Factor(10), 0);
}

}  // namespace
}  // namespace accel::engine
