// Averaging of the loss, early ends and local SGD, whole jobs.

#include <cmath>

#include "tests/unit/engine/training_fixture.h"

namespace accel::engine {
namespace {

using accel::v1::EarlyStopped;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LoopOptionsTest : public TrainingTest {
 protected:
  accel::v1::EarlyStopping* Condition(const std::string& metric) {
    auto* condition = spec()->mutable_loop()->add_early_stopping();
    condition->set_metric(metric);
    return condition;
  }

  accel::v1::JobSpec* spec() { return start_.mutable_spec(); }
};

TEST_F(LoopOptionsTest, ShortStepIsDividedByItsOwnBatches) {
  // Five batches an epoch; a rate of 1 makes the weights' change the gradient.
  spec()->mutable_optimizer()->mutable_sgd()->set_lr(1);
  spec()->clear_schedule();
  spec()->mutable_loop()->set_log_grad_norm(true);
  spec()->mutable_loop()->set_num_epochs(1);
  Accumulate(4, true);
  Reports plain;
  Run(start_, &plain);
  fs::remove_all(folder_ / "checkpoints");
  spec()->mutable_loss()->set_averaging("micro_batches");
  Reports weighted;
  Run(start_, &weighted);
  ASSERT_EQ(plain.Losses(), weighted.Losses());
  std::vector<double> norms[2];
  for (const auto& report : plain.all) {
    if (report.has_step()) norms[0].push_back(report.step().grad_norm());
  }
  for (const auto& report : weighted.all) {
    if (report.has_step()) norms[1].push_back(report.step().grad_norm());
  }
  ASSERT_THAT(norms[0], SizeIs(2));
  EXPECT_EQ(norms[1][0], norms[0][0]);
  // One batch instead of four: divided by 1 instead of 4.
  EXPECT_EQ(norms[1][1], 4 * norms[0][1]);
}

TEST_F(LoopOptionsTest, ItemsOfAllRanksAndBatchesWeighTheSame) {
  // Batches of 2 on two ranks are one batch of all 4 samples, if every sample weighs the same.
  std::ofstream csv(folder_ / "train.csv");
  for (int i = 0; i < 16; ++i) {
    // Of each four samples in order, one does not count; those that do lie unevenly.
    csv << i * 7 % 16 / 10.0 << "," << i * 5 % 16 / 12.0 << "," << (i % 8 < 3 ? -100 : i % 2)
        << "\n";
  }
  csv.close();
  spec()->mutable_data()->clear_split();
  spec()->mutable_data()->set_shuffle(false);
  spec()->mutable_model()->mutable_mlp()->set_dropout(0);
  spec()->mutable_loss()->set_averaging("items");
  spec()->mutable_loop()->set_log_grad_norm(true);
  spec()->mutable_data()->set_batch_size(8);
  Reports whole;
  EXPECT_EQ(Run(start_, &whole).step(), 6);
  const NamedTensors weights = Weights("0");
  fs::remove_all(folder_ / "checkpoints");
  spec()->mutable_data()->set_batch_size(2);
  Accumulate(2, true);
  std::vector<Reports> parts;
  for (const auto& finished : RunRanks(2, &parts)) ASSERT_TRUE(finished.ok()) << finished.status();
  const std::vector<double> first = parts[0].Losses();
  const std::vector<double> second = parts[1].Losses();
  ASSERT_THAT(first, SizeIs(6));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR((first[i] + second[i]) / 2, whole.Losses()[i], 1e-6);
  }
  const NamedTensors trained = Weights("0");
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_TRUE(at::allclose(weights[i].second, trained[i].second, 1e-5, 1e-6));
  }
}

// Of a stream only the batches that were read tell how many a step has.
TEST_F(LoopOptionsTest, StepsOfAStreamAreAveragedAsThoseOfAFileInOrder) {
  spec()->mutable_data()->clear_split();
  spec()->mutable_data()->set_shuffle(false);
  spec()->mutable_data()->set_batch_size(5);  // five batches, or three of two ranks
  spec()->clear_schedule();
  Accumulate(2, true);
  start_.mutable_resolved_accelerator()->mutable_dataloader_config()->set_dispatch_batches(false);
  for (const std::string averaging : {"num_steps", "micro_batches", "items"}) {
    spec()->mutable_loss()->set_averaging(averaging);
    for (int world_size : {1, 2}) {
      std::vector<Reports> reports[2];
      NamedTensors weights[2];
      for (int streams : {0, 1}) {
        if (streams == 1) spec()->mutable_data()->mutable_streaming();
        for (const auto& finished : RunRanks(world_size, &reports[streams])) {
          ASSERT_TRUE(finished.ok()) << finished.status();
        }
        weights[streams] = Weights("0");
        spec()->mutable_data()->clear_streaming();
        fs::remove_all(folder_ / "checkpoints");
      }
      EXPECT_THAT(reports[0][0].Losses(), SizeIs(world_size == 1 ? 9 : 6));
      EXPECT_EQ(reports[0][0].Losses(), reports[1][0].Losses()) << averaging << world_size;
      ExpectSame(weights[0], weights[1]);
    }
  }
}

TEST_F(LoopOptionsTest, StepWithoutItemsIsNoStepIntoNan) {
  std::ofstream csv(folder_ / "train.csv");
  for (int i = 0; i < 8; ++i) csv << i << "," << 1 << "," << (i < 4 ? -100 : 1) << "\n";
  csv.close();
  spec()->mutable_data()->clear_split();
  spec()->mutable_data()->set_shuffle(false);
  spec()->mutable_loss()->set_averaging("items");
  Reports reports;
  Run(start_, &reports);
  EXPECT_EQ(reports.Losses()[0], 0);
  EXPECT_GT(reports.Losses()[1], 0);
  EXPECT_THAT(reports.Warnings(), IsEmpty());
}

TEST_F(LoopOptionsTest, PatienceWithTheEvaluationEndsAnEpoch) {
  spec()->mutable_loop()->set_num_epochs(50);
  spec()->mutable_optimizer()->mutable_sgd()->set_lr(0);  // no value is better than the first
  spec()->clear_schedule();
  spec()->mutable_model()->mutable_mlp()->set_dropout(0);
  Condition("eval/loss")->set_patience(2);
  std::vector<Reports> reports;
  for (const auto& finished : RunRanks(2, &reports)) {
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(finished->step(), 9);  // three steps an epoch
    EXPECT_FALSE(finished->stopped());
    const EarlyStopped& stopped = finished->early_stopped();
    EXPECT_EQ(stopped.step(), 9);
    EXPECT_EQ(stopped.best_step(), 3);
    EXPECT_EQ(stopped.value(), stopped.best_value());
    EXPECT_THAT(stopped.reason(), HasSubstr("(step 3) for 2 values"));
  }
  EXPECT_THAT(reports[0].MetricSteps(), ElementsAre(3, 6, 9));
  EXPECT_THAT(reports[0].Checkpoints(), ElementsAre(std::pair(9, 0)));
}

TEST_F(LoopOptionsTest, ThresholdOfTheLossEndsInTheMiddleOfAnEpochWithItsEvaluation) {
  Reports whole;
  Run(start_, &whole);
  fs::remove_all(folder_ / "checkpoints");
  const double threshold = whole.Losses()[6];
  Condition("train/loss")->set_threshold(threshold);
  Reports reports;
  const Finished finished = Run(start_, &reports);
  ASSERT_TRUE(finished.has_early_stopped());
  EXPECT_LE(finished.step(), 7);
  EXPECT_LE(finished.early_stopped().value(), threshold);
  EXPECT_EQ(reports.MetricSteps().back(), finished.step());
  EXPECT_THAT(reports.Checkpoints(), ElementsAre(std::pair(finished.step(), 0)));
}

TEST_F(LoopOptionsTest, EndInsideAStepOverEpochsWaitsForItsEnd) {
  Accumulate(3, false);  // an epoch's five batches end inside the second step
  Condition("eval/loss")->set_threshold(1000);
  Reports reports;
  const Finished finished = Run(start_, &reports);
  EXPECT_EQ(finished.step(), 2);
  EXPECT_EQ(finished.early_stopped().step(), 2);
  EXPECT_THAT(reports.MetricSteps(), ElementsAre(1, 2));
  ResumeFrom("0", 1);
  spec()->mutable_loop()->clear_early_stopping();
  Reports after;
  EXPECT_EQ(Run(start_, &after).step(), 5);
}

TEST_F(LoopOptionsTest, ResumedRunEndsWhereTheUninterruptedOneDoes) {
  spec()->mutable_loop()->set_num_epochs(50);
  spec()->mutable_loop()->set_checkpoint_every_steps(4);
  spec()->mutable_optimizer()->mutable_adamw()->set_lr(0.01);
  spec()->clear_schedule();
  Condition("train/loss")->set_patience(6);
  std::vector<Reports> whole;
  const auto finished = RunRanks(2, &whole);
  ASSERT_TRUE(finished[0].ok()) << finished[0].status();
  ASSERT_TRUE(finished[0]->has_early_stopped());
  const auto saved = whole[0].Checkpoints();
  ASSERT_GE(saved.size(), 2);
  const NamedTensors weights = Weights(absl::StrCat(saved.back().second));
  // The last periodic checkpoint lies less than the patience before the end.
  ResumeFrom(absl::StrCat(saved[saved.size() - 2].second), 100);
  std::vector<Reports> resumed;
  const auto again = RunRanks(2, &resumed);
  ASSERT_TRUE(again[0].ok()) << again[0].status();
  EXPECT_EQ(again[0]->early_stopped().SerializeAsString(),
            finished[0]->early_stopped().SerializeAsString());
  EXPECT_EQ(again[1]->SerializeAsString(), finished[1]->SerializeAsString());
  ExpectSame(Weights(absl::StrCat(resumed[0].Checkpoints().back().second)), weights);
}

// A sample of rank 1 overflows.
class LossNotFiniteTest : public LoopOptionsTest {
 protected:
  void SetUp() override {
    LoopOptionsTest::SetUp();
    std::ofstream csv(folder_ / "train.csv");
    for (int i = 0; i < 24; ++i) csv << (i == 14 ? "3e38,3e38" : "0.5,0.25") << ",0\n";
    csv.close();
    spec()->mutable_data()->clear_split();
    spec()->mutable_data()->set_shuffle(false);
    spec()->mutable_model()->mutable_mlp()->set_dropout(0);
  }
};

TEST_F(LossNotFiniteTest, StopsAllRanksBeforeTheStep) {
  spec()->mutable_loop()->set_on_nonfinite_loss("stop");
  std::vector<Reports> reports;
  const auto results = RunRanks(2, &reports);
  for (const auto& finished : results) {
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(finished->step(), 1);  // samples 8 to 15 are the second step's
    EXPECT_EQ(finished->early_stopped().metric(), "train/loss");
    EXPECT_THAT(finished->early_stopped().reason(), HasSubstr("in step 2, which was not taken"));
    EXPECT_FALSE(std::isfinite(finished->early_stopped().value()));
  }
  EXPECT_THAT(reports[0].Losses(), SizeIs(1));
  for (const auto& [name, tensor] : Weights("0")) {
    EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
  }
}

TEST_F(LossNotFiniteTest, FailsAllRanksAtTheStep) {
  spec()->mutable_loop()->set_on_nonfinite_loss("fail");
  std::vector<Reports> reports;
  for (const auto& finished : RunRanks(2, &reports)) {
    EXPECT_EQ(CauseOf(finished.status()), Failure::JOB);
    EXPECT_THAT(finished.status().message(), HasSubstr("train/loss is"));
    EXPECT_THAT(finished.status().message(), HasSubstr("in step 2"));
    EXPECT_EQ(StepOf(finished.status()), 2);
  }
}

TEST_F(LossNotFiniteTest, ContinuesWithoutAWish) {
  Reports reports;
  EXPECT_EQ(Run(start_, &reports).step(), 18);
  EXPECT_THAT(reports.Warnings(), SizeIs(1));
}

TEST_F(LoopOptionsTest, RanksTrainApartBetweenAverages) {
  spec()->mutable_loop()->set_local_sgd_steps(4);
  std::vector<Reports> local;
  for (const auto& finished : RunRanks(2, &local)) ASSERT_TRUE(finished.ok()) << finished.status();
  fs::remove_all(folder_ / "checkpoints");
  spec()->mutable_loop()->clear_local_sgd_steps();
  std::vector<Reports> together;
  for (const auto& finished : RunRanks(2, &together)) ASSERT_TRUE(finished.ok());
  EXPECT_EQ(local[0].Losses()[0], together[0].Losses()[0]);
  EXPECT_NE(local[0].Losses()[3], together[0].Losses()[3]);
}

TEST_F(LoopOptionsTest, PlateauOfTheLossSeesEachEpochOnce) {
  spec()->mutable_optimizer()->mutable_sgd()->set_lr(0.5);
  auto* plateau = spec()->mutable_schedule()->mutable_reduce_on_plateau();
  plateau->set_metric("train/loss");
  plateau->set_patience(0);
  plateau->set_threshold(0.99);  // no value but the first is better
  plateau->set_factor(0.5);
  spec()->mutable_loop()->set_num_epochs(4);
  spec()->mutable_loop()->set_checkpoint_every_steps(4);
  Reports reports;
  Run(start_, &reports);
  std::vector<double> rates;
  for (const auto& report : reports.all) {
    if (report.has_step()) rates.push_back(report.step().learning_rate());
  }
  ASSERT_THAT(rates, SizeIs(20));
  for (size_t i = 0; i < rates.size(); ++i) {
    EXPECT_EQ(rates[i], i < 10 ? 0.5 : i < 15 ? 0.25 : 0.125) << i;
  }
  // Step 8 is inside the second epoch, whose losses so far are in the checkpoint.
  ResumeFrom("1", 100);
  Reports resumed;
  Run(start_, &resumed);
  EXPECT_EQ(resumed.Losses(),
            std::vector<double>(reports.Losses().begin() + 8, reports.Losses().end()));
}

TEST_F(LoopOptionsTest, LocalSgdIsOffWithOneRank) {
  Reports plain;
  Run(start_, &plain);
  fs::remove_all(folder_ / "checkpoints");
  spec()->mutable_loop()->set_local_sgd_steps(2);
  Reports local;
  Run(start_, &local);
  EXPECT_EQ(local.Losses(), plain.Losses());
  EXPECT_THAT(local.Warnings(), ElementsAre(HasSubstr("loop.local_sgd_steps: no effect")));
}

}  // namespace
}  // namespace accel::engine
