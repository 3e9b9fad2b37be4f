#include "client/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/cli/human.h"
#include "client/cli/progress_display.h"
#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using ::testing::HasSubstr;

v1::EventRecord StateEvent(v1::Job::State to) {
  v1::EventRecord event;
  event.mutable_state_changed()->set_to(to);
  event.set_message("state -> " + v1::Job::State_Name(to));
  return event;
}

v1::EventRecord TrainingStarted(int64_t total_steps, int64_t total_epochs) {
  v1::EventRecord event;
  event.mutable_training_started()->set_total_steps(total_steps);
  event.mutable_training_started()->set_total_epochs(total_epochs);
  return event;
}

v1::MetricRecord Row(int64_t step, int64_t milliseconds,
                     const std::map<std::string, double>& values) {
  v1::MetricRecord record;
  record.set_step(step);
  record.mutable_time()->set_seconds(1000 + milliseconds / 1000);
  record.mutable_time()->set_nanos(static_cast<int32_t>(milliseconds % 1000 * 1000000));
  for (const auto& [key, value] : values) (*record.mutable_values())[key].set_number(value);
  return record;
}

TEST(RateMeterTest, MeasuresOverTheLastTenSeconds) {
  RateMeter meter;
  EXPECT_FALSE(meter.StepsPerSecond().has_value());
  const auto at = [](int s) { return absl::FromUnixSeconds(1000 + s); };
  meter.Add(at(0), 10);
  EXPECT_FALSE(meter.StepsPerSecond().has_value());
  meter.Add(at(2), 30);
  EXPECT_DOUBLE_EQ(*meter.StepsPerSecond(), 10);
  meter.Add(at(2), 30);
  EXPECT_DOUBLE_EQ(*meter.StepsPerSecond(), 10);
  meter.Add(at(12), 1030);
  EXPECT_DOUBLE_EQ(*meter.StepsPerSecond(), 100);
  meter.Add(at(13), 5);
  EXPECT_FALSE(meter.StepsPerSecond().has_value());
}

class ProgressStateTest : public ::testing::Test {
 protected:
  void Train() {
    state_.OnEvent(StateEvent(v1::Job::RUNNING));
    state_.OnEvent(TrainingStarted(790, 5));
    state_.OnMetrics(Row(82, 0, {{"train/loss", 0.9}, {"train/epoch", 0}}));
    state_.OnMetrics(Row(332, 1000, {{"train/loss", 0.23142}, {"train/epoch", 2.1}}));
    state_.OnMetrics(Row(332, 1000, {{"eval/loss", 0.2}, {"eval/accuracy", 0.95}}));
  }
  ProgressState state_{"mnist"};
};

TEST_F(ProgressStateTest, BeforeTheFirstStepShowsTheState) {
  EXPECT_EQ(state_.Bar(80), "mnist  QUEUED");
  state_.OnEvent(StateEvent(v1::Job::STARTING));
  EXPECT_EQ(state_.Bar(80), "mnist  STARTING");
  EXPECT_EQ(state_.Bar(8), "mnist  S");
}

TEST_F(ProgressStateTest, WideBar) {
  Train();
  EXPECT_EQ(state_.Bar(160),
            "mnist  42% [################------------------------] 332/790  epoch 3/5  "
            "250.0 steps/s  eta 1.8s  loss 0.2314  eval loss 0.2  accuracy 0.9500");
}

TEST_F(ProgressStateTest, NarrowBarsDropTheLeastImportant) {
  Train();
  EXPECT_EQ(state_.Bar(100),
            "mnist  42% [#####--------] 332/790  epoch 3/5  250.0 steps/s  eta 1.8s  loss 0.2314  "
            "accuracy 0.9500");
  EXPECT_EQ(state_.Bar(78),
            "mnist  42% [###-----] 332/790  epoch 3/5  250.0 steps/s  eta 1.8s  loss 0.2314");
  EXPECT_EQ(state_.Bar(77),
            "mnist  42% [#######-----------] 332/790  250.0 steps/s  eta 1.8s  loss 0.2314");
  EXPECT_EQ(state_.Bar(45), "mnist  42% [####-------] 332/790  loss 0.2314");
  EXPECT_EQ(state_.Bar(20), "mnist  42% 332/790");
  EXPECT_EQ(state_.Bar(0), "");
}

TEST_F(ProgressStateTest, NeverWiderThanAllowed) {
  Train();
  for (int width = 0; width < 200; ++width) {
    EXPECT_LE(DisplayWidth(state_.Bar(width)), width) << width;
  }
}

TEST_F(ProgressStateTest, FullBarHasNoTimeLeft) {
  Train();
  state_.OnMetrics(Row(790, 2000, {{"train/loss", 0.1}, {"train/epoch", 5}}));
  EXPECT_EQ(state_.Bar(120),
            "mnist 100% [###############################] 790/790  epoch 5/5  354.0 steps/s  "
            "loss 0.1  eval loss 0.2  accuracy 0.9500");
}

TEST_F(ProgressStateTest, SlowStepsAreSecondsAStep) {
  state_.OnEvent(StateEvent(v1::Job::RUNNING));
  state_.OnEvent(TrainingStarted(10, 1));
  state_.OnMetrics(Row(1, 0, {}));
  state_.OnMetrics(Row(2, 4000, {}));
  EXPECT_EQ(state_.Line(), "mnist: step 2/10 (20%)  epoch 1/1  4.0 s/step  eta 32s");
}

TEST_F(ProgressStateTest, UnknownLengthHasNoBar) {
  state_.OnEvent(StateEvent(v1::Job::RUNNING));
  state_.OnMetrics(Row(5, 0, {{"train/loss", 1.5}}));
  EXPECT_EQ(state_.Bar(80), "mnist 5  loss 1.5");
  EXPECT_EQ(state_.Line(), "mnist: step 5  loss 1.5");
}

class ProgressDisplayTest : public ::testing::Test {
 protected:
  ProgressDisplayTest() {
    io_.columns = [] { return 61; };
  }

  FakeClock clock_;
  std::istringstream in_;
  std::ostringstream out_;
  std::ostringstream err_;
  Io io_{.in = in_, .out = out_, .err = err_, .clock = clock_};
};

TEST_F(ProgressDisplayTest, OffATerminalPrintsPlainLinesNowAndThen) {
  {
    ProgressDisplay display(io_, "mnist");
    display.OnEvent(StateEvent(v1::Job::RUNNING));
    display.OnEvent(TrainingStarted(100, 1));
    display.OnMetrics(Row(1, 0, {{"train/loss", 3}}));
    clock_.now += absl::Seconds(4);
    display.OnMetrics(Row(40, 4000, {{"train/loss", 2}}));
    clock_.now += absl::Seconds(2);
    display.OnMetrics(Row(61, 6000, {{"train/loss", 1}}));
    display.OnMetrics(Row(61, 6000, {{"eval/loss", 1.5}}));
    display.OnMetrics(Row(62, 6100, {{"train/loss", 1}}));
    display.PrintLine("accelctl: a note");
  }
  EXPECT_EQ(err_.str(),
            "state -> RUNNING\n"
            "mnist: step 61/100 (61%)  epoch 1/1  10.0 steps/s  eta 3.9s  loss 1\n"
            "mnist: step 61/100 (61%)  epoch 1/1  10.0 steps/s  eta 3.9s  loss 1  eval loss 1.5\n"
            "accelctl: a note\n"
            "mnist: step 62/100 (62%)  epoch 1/1  10.0 steps/s  eta 3.8s  loss 1  eval loss 1.5\n");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressDisplayTest, OnATerminalDrawsTheBarOverItself) {
  io_.err_is_terminal = true;
  {
    ProgressDisplay display(io_, "mnist");
    display.OnEvent(StateEvent(v1::Job::RUNNING));
    display.OnEvent(TrainingStarted(100, 1));
    display.OnMetrics(Row(50, 0, {{"train/loss", 1}}));
    display.OnMetrics(Row(51, 10, {{"train/loss", 1}}));  // too soon to be drawn
    display.PrintLine("a note");
  }
  EXPECT_EQ(err_.str(),
            "state -> RUNNING\n"
            "\r\x1b[Kmnist"
            "\r\x1b[Kmnist   0% [------------------------------] 0/100  epoch 1/1"
            "\r\x1b[Kmnist  50% [##########-----------] 50/100  epoch 1/1  loss 1"
            "\r\x1b[Ka note\n"
            "\r\x1b[Kmnist  51% [###########-----------] 51/100  eta 0.5s  loss 1"
            "\r\x1b[Kmnist  51% [###########-----------] 51/100  eta 0.5s  loss 1\n");
}

TEST_F(ProgressDisplayTest, EventsCannotControlTheTerminal) {
  io_.err_is_terminal = true;
  v1::EventRecord event;
  event.set_message("bad \x1b[2J");
  ProgressDisplay(io_, "m").OnEvent(event);
  EXPECT_THAT(err_.str(), HasSubstr("bad \\x1b[2J"));
}

}  // namespace
}  // namespace accel::cli
