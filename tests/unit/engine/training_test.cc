#include "core/engine/loop/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "core/engine/checkpoint/checkpointer.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loop/plan.h"
#include "tests/unit/engine/training_fixture.h"

namespace accel::engine {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LoopPlan, EpochsAndStepsWhicheverComesFirst) {
  accel::v1::LoopSpec spec;
  spec.set_num_epochs(3);
  EXPECT_EQ(MakeLoopPlan(spec, {}, 5).total_steps, 15);
  spec.set_max_steps(11);
  EXPECT_EQ(MakeLoopPlan(spec, {}, 5).total_steps, 11);
  EXPECT_EQ(MakeLoopPlan(spec, {}, 5).total_epochs, 3);
  spec.clear_num_epochs();
  spec.set_max_steps(10);
  EXPECT_EQ(MakeLoopPlan(spec, {}, 5).total_epochs, 2);
}

TEST(LoopPlan, AccumulatedStepsEndWithTheEpochOrGoOn) {
  accel::v1::LoopSpec spec;
  spec.set_num_epochs(3);
  accel::v1::GradientAccumulationPlugin accumulation;
  accumulation.set_num_steps(2);
  accumulation.set_sync_with_dataloader(true);
  LoopPlan plan = MakeLoopPlan(spec, accumulation, 5);
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_EQ(plan.total_rounds, 15);
  EXPECT_TRUE(plan.CompletesStep({.micro_batches = 0}, /*last_of_epoch=*/true));
  EXPECT_TRUE(plan.CompletesStep({.micro_batches = 1}, /*last_of_epoch=*/false));
  EXPECT_FALSE(plan.CompletesStep({.micro_batches = 0}, /*last_of_epoch=*/false));
  spec.set_max_steps(5);
  plan = MakeLoopPlan(spec, accumulation, 5);
  EXPECT_EQ(plan.total_rounds, 9);
  EXPECT_EQ(plan.total_epochs, 2);

  accumulation.set_sync_with_dataloader(false);
  plan = MakeLoopPlan(spec, accumulation, 5);
  EXPECT_EQ(plan.total_rounds, 10);
  EXPECT_FALSE(plan.CompletesStep({.micro_batches = 0}, /*last_of_epoch=*/true));
  EXPECT_TRUE(plan.CompletesStep({.micro_batches = 1}, /*last_of_epoch=*/true));
  spec.clear_max_steps();
  plan = MakeLoopPlan(spec, accumulation, 5);
  EXPECT_EQ(plan.total_steps, 7);
  EXPECT_EQ(plan.total_rounds, 15);
  accumulation.set_num_steps(16);
  EXPECT_EQ(MakeLoopPlan(spec, accumulation, 5).total_steps, 0);
}

TEST(LoopPlan, EndsWithStepsOrEpochs) {
  accel::v1::LoopSpec spec;
  spec.set_num_epochs(3);
  spec.set_max_steps(11);
  const LoopPlan plan = MakeLoopPlan(spec, {}, /*rounds_per_epoch=*/0);
  EXPECT_EQ(plan.total_steps, 11);
  EXPECT_EQ(plan.total_epochs, 3);
  EXPECT_FALSE(plan.EndsAt({.step = 10, .epoch = 2}));
  EXPECT_TRUE(plan.EndsAt({.step = 11, .epoch = 1}));
  EXPECT_TRUE(plan.EndsAt({.step = 9, .epoch = 2, .epoch_complete = true}));
  EXPECT_TRUE(plan.EndsAt({.step = 9, .epoch = 3}));
}

TEST(LoopPlan, EndlessJobsDoNotOverflow) {
  accel::v1::LoopSpec spec;
  spec.set_max_steps(std::numeric_limits<int64_t>::max());
  accel::v1::GradientAccumulationPlugin accumulation;
  accumulation.set_num_steps(4);
  for (bool sync : {true, false}) {
    accumulation.set_sync_with_dataloader(sync);
    const LoopPlan plan = MakeLoopPlan(spec, accumulation, 5);
    EXPECT_EQ(plan.total_rounds, std::numeric_limits<int64_t>::max());
    EXPECT_GT(plan.total_epochs, 1);
  }
}

TEST_F(TrainingTest, ReportsWhatItDoes) {
  Reports reports;
  const Finished finished = Run(start_, &reports);
  EXPECT_EQ(finished.step(), 15);
  EXPECT_FALSE(finished.stopped());
  const auto& ready = reports.all[0].ready();
  EXPECT_EQ(ready.total_steps(), 15);
  EXPECT_EQ(ready.total_epochs(), 3);
  EXPECT_EQ(ready.parameters(), 2 * 8 + 8 + 8 * 2 + 2);
  EXPECT_THAT(reports.MetricSteps(), ElementsAre(5, 10, 15));
  EXPECT_THAT(reports.Checkpoints(), ElementsAre(std::pair(15, 0)));
  const auto& first = reports.all[1].step();
  EXPECT_EQ(first.step(), 1);
  EXPECT_EQ(first.samples(), 4);
  EXPECT_EQ(first.learning_rate(), 0);
  EXPECT_EQ(reports.all[2].step().learning_rate(), 0.05 * (1 / 3.0));
  EXPECT_FALSE(first.has_grad_norm());
  EXPECT_GT(first.time_us(), 0);
  for (const auto& report : reports.all) {
    if (!report.has_metrics()) continue;
    EXPECT_EQ(report.metrics().values().at("eval/samples"), 6);
    EXPECT_GE(report.metrics().values().at("eval/accuracy"), 0);
    EXPECT_GT(report.metrics().values().at("eval/loss"), 0);
  }
}

TEST_F(TrainingTest, LogsEveryNthStepAndEvaluatesEveryNthEpochAndAtTheEnd) {
  start_.mutable_spec()->mutable_loop()->set_log_every_steps(4);
  start_.mutable_spec()->mutable_loop()->set_evaluate_every_epochs(2);
  start_.mutable_spec()->mutable_loop()->mutable_clipping()->set_max_norm(0.5);
  Reports reports;
  Run(start_, &reports);
  std::vector<int64_t> steps;
  for (const auto& report : reports.all) {
    if (!report.has_step()) continue;
    steps.push_back(report.step().step());
    EXPECT_GT(report.step().grad_norm(), 0);
  }
  EXPECT_THAT(steps, ElementsAre(4, 8, 12));
  EXPECT_THAT(reports.MetricSteps(), ElementsAre(10, 15));
}

TEST_F(TrainingTest, AccumulatedStepReportsTheMeanOfItsBatches) {
  // One batch after the other with a rate of 0: every loss is that of the first weights.
  start_.mutable_spec()->mutable_model()->mutable_mlp()->set_dropout(0);
  start_.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_lr(0);
  Reports single;
  Run(start_, &single);
  const std::vector<double> losses = single.Losses();
  ASSERT_EQ(losses.size(), 15);
  fs::remove_all(folder_ / "checkpoints");
  Accumulate(2, true);
  Reports pairs;
  EXPECT_EQ(Run(start_, &pairs).step(), 9);
  EXPECT_EQ(pairs.all[0].ready().total_steps(), 9);
  EXPECT_THAT(pairs.MetricSteps(), ElementsAre(3, 6, 9));
  const std::vector<double> means = pairs.Losses();
  ASSERT_EQ(means.size(), 9);
  EXPECT_EQ(means[0], (losses[0] + losses[1]) / 2);
  EXPECT_EQ(means[2], losses[4]);
  EXPECT_EQ(means[3], (losses[5] + losses[6]) / 2);
  EXPECT_EQ(pairs.all[1].step().samples(), 8);
  EXPECT_EQ(pairs.all[3].step().samples(), 2);
}

TEST_F(TrainingTest, JobShorterThanAnAccumulatedStepIsRefused) {
  Accumulate(16, false);
  const absl::Status status = Fail(start_);
  EXPECT_EQ(CauseOf(status), Failure::JOB);
  EXPECT_THAT(status.message(), HasSubstr("num_steps is 16, the job has 15 batches"));
}

// JSON has neither NaN nor infinity.
TEST_F(TrainingTest, MetricsScheduleGoesOnFromALossThatIsNoNumber) {
  start_.mutable_spec()->mutable_data()->mutable_train()->mutable_normalization()->set_scale(1e38);
  start_.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_lr(1);
  auto* plateau = start_.mutable_spec()->mutable_schedule()->mutable_reduce_on_plateau();
  plateau->set_metric("train/loss");
  plateau->set_patience(0);
  start_.mutable_spec()->mutable_loop()->set_max_steps(7);
  Reports first;
  Run(start_, &first);
  start_.mutable_spec()->mutable_loop()->set_max_steps(12);
  start_.set_resume_dir(folder_ / "checkpoints" / "0");
  start_.set_next_checkpoint(1);
  Reports second;
  EXPECT_EQ(Run(start_, &second).step(), 12);
  std::vector<double> rates;
  for (const auto& report : second.all) {
    if (report.has_step()) rates.push_back(report.step().learning_rate());
  }
  EXPECT_THAT(rates, ElementsAre(DoubleEq(0.1), DoubleEq(0.1), DoubleEq(0.1), DoubleEq(0.01),
                                 DoubleEq(0.01)));
}

TEST_F(TrainingTest, SkippedStepsAreReportedAndNotTheSchedules) {
  ScaleLoss(start_.mutable_resolved_accelerator());
  start_.mutable_resolved_accelerator()->set_step_scheduler_with_optimizer(true);
  start_.mutable_spec()->mutable_schedule()->mutable_step()->set_step_size(1);
  Reports reports;
  Run(start_, &reports);
  int64_t skipped = 0;
  double rate = 0.05;
  for (const auto& report : reports.all) {
    if (!report.has_step()) continue;
    const auto& step = report.step();
    EXPECT_DOUBLE_EQ(step.learning_rate(), rate);
    skipped += step.loss_scaling().step_was_skipped() ? 1 : 0;
    EXPECT_EQ(step.loss_scaling().skipped_steps(), skipped);
    if (!step.loss_scaling().step_was_skipped()) rate *= 0.1;
  }
  EXPECT_GT(skipped, 2);
  EXPECT_LT(skipped, 12);
}

TEST_F(TrainingTest, WeightsToStartFromInFloat16TrainInFloat32) {
  Reports reports;
  Run(start_, &reports);
  NamedTensors half = Weights("0");
  for (auto& [name, tensor] : half) tensor = tensor.to(at::kHalf);
  ASSERT_TRUE(WriteSafetensors(folder_ / "half.safetensors", half).ok());
  fs::remove_all(folder_ / "checkpoints");
  ScaleLoss(start_.mutable_resolved_accelerator());
  start_.mutable_spec()->mutable_model()->set_init_from("data/half.safetensors");
  Reports scaled;
  Run(start_, &scaled);
  for (const auto& [name, tensor] : Weights("0")) EXPECT_EQ(tensor.scalar_type(), at::kFloat);
}

TEST_F(TrainingTest, PeriodicCheckpointsAndTheirLimit) {
  start_.mutable_spec()->mutable_loop()->set_checkpoint_every_steps(5);
  start_.mutable_resolved_accelerator()->mutable_project_config()->set_total_limit(2);
  Reports reports;
  Run(start_, &reports);
  // The last one is the final one, not a second of the same step.
  EXPECT_THAT(reports.Checkpoints(),
              ElementsAre(std::pair(5, 0), std::pair(10, 1), std::pair(15, 2)));
  EXPECT_THAT(ListCheckpoints(folder_ / "checkpoints"), ElementsAre(1, 2));
  for (const auto& report : reports.all) {
    if (report.has_checkpoint() && report.checkpoint().number() == 2) {
      EXPECT_THAT(report.checkpoint().removed(), ElementsAre(0));
      EXPECT_GT(report.checkpoint().bytes(), 0);
      EXPECT_GT(report.checkpoint().stall_seconds(), 0);
    }
  }
}

TEST_F(TrainingTest, StopEndsWithoutACheckpoint) {
  Reports reports;
  const Finished finished =
      Run(start_, &reports, [](int64_t begun) { return TickGate::Decision{.stop = begun == 3}; });
  EXPECT_TRUE(finished.stopped());
  EXPECT_EQ(finished.step(), 3);
  EXPECT_TRUE(reports.Checkpoints().empty());
}

TEST_F(TrainingTest, StopsWhileItStarts) {
  ScriptedGate gate({});
  gate.stop_at_start = true;
  Reports reports;
  auto finished = RunTraining(start_, gate, reports);
  ASSERT_TRUE(finished.ok());
  EXPECT_TRUE(finished->stopped());
  EXPECT_TRUE(reports.all.empty());
}

TEST_F(TrainingTest, FailedCheckpointIsAWarningAndTheFinalOneAnError) {
  const fs::path checkpoints = folder_ / "checkpoints";
  Reports reports;
  ScriptedGate gate([&](int64_t begun) {
    if (begun == 2) {  // a file where the folder was: nothing can be created below it
      fs::remove_all(checkpoints);
      std::ofstream(checkpoints) << "in the way";
    }
    return TickGate::Decision{.checkpoint = begun == 2};
  });
  const absl::Status status = RunTraining(start_, gate, reports).status();
  EXPECT_THAT(reports.Warnings(),
              ElementsAre(HasSubstr("checkpoint: checkpoint at step 2 failed")));
  EXPECT_EQ(reports.Losses().size(), 15);
  EXPECT_EQ(CauseOf(status), Failure::STORAGE) << status;
  EXPECT_EQ(StepOf(status), 15);
}

TEST_F(TrainingTest, LossThatIsNoNumberIsReportedAndWarnedOfOnce) {
  auto* train = start_.mutable_spec()->mutable_data()->mutable_train();
  train->mutable_normalization()->set_scale(1e38);
  start_.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_lr(1);
  start_.mutable_spec()->clear_schedule();
  Reports reports;
  Run(start_, &reports);
  EXPECT_EQ(reports.Losses().size(), 15);
  EXPECT_THAT(reports.Losses().back(), ::testing::IsNan());
  EXPECT_THAT(reports.Warnings(), ElementsAre(HasSubstr("loss: loss is ")));
}

TEST_F(TrainingTest, FailuresCarryTheirCause) {
  StartAttempt start = start_;
  start.mutable_spec()->mutable_data()->mutable_train()->set_file("data/none.csv");
  EXPECT_EQ(CauseOf(Fail(start)), Failure::DATA);

  start = start_;
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_layer_sizes(0, 3);
  EXPECT_EQ(CauseOf(Fail(start)), Failure::JOB);

  start = start_;
  start.mutable_spec()->mutable_data()->set_drop_last(true);
  start.mutable_spec()->mutable_data()->set_batch_size(100);
  EXPECT_EQ(CauseOf(Fail(start)), Failure::JOB);
  EXPECT_THAT(Fail(start).message(), HasSubstr("18 samples, batch size 100"));

  start = start_;
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_layer_sizes(1, 16777216);
  start.mutable_spec()->mutable_model()->mutable_mlp()->set_layer_sizes(2, 16777216);
  EXPECT_EQ(CauseOf(Fail(start)), Failure::OUT_OF_MEMORY) << Fail(start);
}

TEST_F(TrainingTest, UnequalSharesTrainTheRoundsThatAllHave) {
  start_.mutable_resolved_accelerator()->mutable_dataloader_config()->set_even_batches(false);
  std::vector<Reports> reports;
  for (const auto& finished : RunRanks(2, &reports)) EXPECT_TRUE(finished.ok());
  // 18 samples are 5 batches, 3 for rank 0 and 2 for rank 1.
  EXPECT_EQ(reports[0].Losses().size(), 6);
  EXPECT_EQ(reports[1].Losses().size(), 6);
  EXPECT_THAT(reports[0].Warnings(), ElementsAre(HasSubstr("trains the 2 of 3")));
  EXPECT_TRUE(reports[1].Warnings().empty());
  EXPECT_EQ(reports[0].MetricSteps().size(), 3);
}

TEST(FailureTest, ExceptionsAreSortedByCause) {
  const auto cause_of = [](const std::function<void()>& thrower) {
    return CauseOf(Guarded("test", [&]() -> absl::Status {
      thrower();
      return absl::OkStatus();
    }));
  };
  EXPECT_EQ(cause_of([] { at::empty({int64_t{1} << 50}); }), Failure::OUT_OF_MEMORY);
  EXPECT_EQ(cause_of([] { throw std::bad_alloc(); }), Failure::OUT_OF_MEMORY);
  EXPECT_EQ(cause_of([] {
              throw std::runtime_error("[/gloo/transport/tcp/pair.cc:1] Connection closed by peer");
            }),
            Failure::COLLECTIVE);
  EXPECT_EQ(cause_of([] { at::ones({2}).add_(at::ones({3})); }), Failure::INTERNAL);
  EXPECT_EQ(cause_of([] { throw 1; }), Failure::INTERNAL);
  const absl::Status gloo = Guarded("step", []() -> absl::Status {
    throw std::runtime_error(
        "[/src/gloo/transport/tcp/pair.cc:1] Read error [127.0.0.1]:1: Connection reset by peer. "
        "This "
        "is typically caused by a bug.");
  });
  EXPECT_EQ(gloo.message(), "step: Read error [127.0.0.1]:1: Connection reset by peer");
  const absl::Status marked = WithCause(absl::NotFoundError("x"), Failure::DATA);
  EXPECT_EQ(CauseOf(WithCause(marked, Failure::JOB)), Failure::DATA);
  EXPECT_TRUE(WithCause(absl::OkStatus(), Failure::JOB).ok());
}

}  // namespace
}  // namespace accel::engine
