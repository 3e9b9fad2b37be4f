#include "core/engine/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace accel::engine {
namespace {

using accel::v1::ScheduleSpec;

double RateAt(const ScheduleSpec& spec, int64_t step, int64_t job_steps = 1000) {
  Schedule schedule(spec, 1.0, job_steps, 1);
  schedule.set_step(step);
  EXPECT_EQ(schedule.step(), step);
  return schedule.LearningRate();
}

TEST(Schedule, ConstantIsTheBaseRate) {
  Schedule schedule({}, 0.5, 10, 1);
  EXPECT_EQ(schedule.LearningRate(), 0.5);
  for (int i = 0; i < 20; ++i) schedule.Advance();
  EXPECT_EQ(schedule.LearningRate(), 0.5);
}

TEST(Schedule, LinearWarmsUpAndDecaysToZero) {
  ScheduleSpec spec;
  spec.mutable_linear()->set_warmup_steps(4);
  EXPECT_EQ(RateAt(spec, 0, 12), 0);
  EXPECT_EQ(RateAt(spec, 1, 12), 0.25);
  EXPECT_EQ(RateAt(spec, 4, 12), 1);
  EXPECT_EQ(RateAt(spec, 8, 12), 0.5);
  EXPECT_EQ(RateAt(spec, 12, 12), 0);
  EXPECT_EQ(RateAt(spec, 13, 12), 0);
}

TEST(Schedule, CosineFallsHalfAWaveAndStaysAtZero) {
  ScheduleSpec spec;
  spec.mutable_cosine()->set_total_steps(8);
  EXPECT_EQ(RateAt(spec, 0), 1);
  EXPECT_NEAR(RateAt(spec, 2), 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(RateAt(spec, 4), 0.5, 1e-15);
  EXPECT_EQ(RateAt(spec, 8), 0);
  EXPECT_EQ(RateAt(spec, 12), 0);
}

TEST(Schedule, AdvancesByTheWorldSize) {
  ScheduleSpec spec;
  spec.mutable_linear()->set_total_steps(12);
  Schedule schedule(spec, 3.0, 12, /*steps_per_update=*/2);
  schedule.Advance();
  schedule.Advance();
  EXPECT_EQ(schedule.step(), 4);
  EXPECT_EQ(schedule.LearningRate(), 2.0);
}

TEST(Schedule, WarmupLongerThanTheJobNeverDivides) {
  ScheduleSpec spec;
  spec.mutable_linear()->set_warmup_steps(10);
  EXPECT_EQ(RateAt(spec, 4, 5), 0.4);
  EXPECT_EQ(RateAt(spec, 10, 5), 0);
  spec.mutable_polynomial()->set_warmup_steps(10);
  EXPECT_EQ(RateAt(spec, 10, 10), 1);
  EXPECT_EQ(RateAt(spec, 10, 5), 1e-7);
}

TEST(Schedule, AStepOfSeveralMissesNoMilestone) {
  ScheduleSpec spec;
  spec.mutable_multi_step()->set_gamma(0.5);
  for (int64_t milestone : {1, 4, 5}) spec.mutable_multi_step()->add_milestones(milestone);
  Schedule schedule(spec, 1.0, 12, /*steps_per_update=*/3);
  schedule.Advance();
  EXPECT_EQ(schedule.LearningRate(), 0.5);
  schedule.Advance();
  EXPECT_EQ(schedule.LearningRate(), 0.125);
}

TEST(Schedule, GoesBackToAnEarlierStep) {
  ScheduleSpec spec;
  spec.mutable_exponential()->set_gamma(0.5);
  Schedule schedule(spec, 1.0, 12, 1);
  schedule.set_step(5);
  schedule.set_step(2);
  EXPECT_EQ(schedule.LearningRate(), 0.25);
}

TEST(Schedule, OneCycleHoldsItsLastRate) {
  ScheduleSpec spec;
  spec.mutable_one_cycle()->set_total_steps(20);
  EXPECT_NEAR(RateAt(spec, 0), 1.0 / 25, 1e-15);
  EXPECT_NEAR(RateAt(spec, 5), 1.0, 1e-15);
  EXPECT_NEAR(RateAt(spec, 19), 1.0 / 25 / 1e4, 1e-15);
  EXPECT_EQ(RateAt(spec, 21), RateAt(spec, 20));
}

TEST(Schedule, OneCycleOfOneStepIsANumber) {
  ScheduleSpec spec;
  spec.mutable_one_cycle();
  EXPECT_TRUE(std::isfinite(RateAt(spec, 0, 1)));
  EXPECT_TRUE(std::isfinite(RateAt(spec, 1, 1)));
  spec.mutable_one_cycle()->set_pct_start(0.5);
  spec.mutable_one_cycle()->set_three_phase(true);
  for (int64_t step = 0; step <= 3; ++step) {
    EXPECT_TRUE(std::isfinite(RateAt(spec, step, 2))) << step;
  }
}

}  // namespace
}  // namespace accel::engine
