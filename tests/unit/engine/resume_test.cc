// Jobs that go on from a checkpoint.

#include "core/engine/loop/failure.h"
#include "tests/unit/engine/training_fixture.h"

namespace accel::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public TrainingTest {
 protected:
  // From every place where a checkpoint can be: between steps, at an epoch's end, in an evaluation.
  void ExpectResumesEqualTheUninterruptedRun() {
    Reports whole;
    const int64_t steps = Run(start_, &whole).step();
    const NamedTensors weights = Weights("0");
    const int64_t ticks = steps + 6;  // each of three evaluations has two batches
    for (int64_t tick = 0; tick < ticks; ++tick) {
      SCOPED_TRACE(tick);
      fs::remove_all(folder_ / "checkpoints");
      Reports before;
      Run(start_, &before, [tick](int64_t begun) {
        // The stop comes some ticks later: what is done in between must not count.
        return TickGate::Decision{.checkpoint = begun == tick, .stop = begun == tick + 3};
      });
      ASSERT_FALSE(before.Checkpoints().empty());
      const int64_t step = before.Checkpoints()[0].first;
      StartAttempt resumed = start_;
      resumed.set_resume_dir(folder_ / "checkpoints" / "0");
      resumed.set_next_checkpoint(7);
      Reports after;
      const Finished finished = Run(resumed, &after);
      EXPECT_EQ(finished.step(), steps);
      EXPECT_EQ(after.all[0].ready().first_step(), step);
      std::vector<double> losses = whole.Losses();
      losses.erase(losses.begin(), losses.begin() + step);
      EXPECT_EQ(after.Losses(), losses);
      ExpectSame(Weights("7"), weights);
    }
  }

  // 18 training samples as a stream and six held-out ones, as many as the split has.
  void Stream(int32_t shuffle_buffer) {
    std::ofstream train(folder_ / "stream.csv");
    std::ofstream held_out(folder_ / "held_out.csv");
    for (int i = 0; i < 24; ++i) {
      (i < 18 ? train : held_out) << i * 7 % 24 << "," << i * 5 % 24 << "," << i % 2 << "\n";
    }
    auto* spec = start_.mutable_spec();
    auto* data = spec->mutable_data();
    data->clear_split();
    data->mutable_train()->set_file("data/stream.csv");
    data->mutable_evaluation()->set_file("data/held_out.csv");
    data->mutable_evaluation()->mutable_csv();
    data->mutable_streaming();
    if (shuffle_buffer > 0) data->mutable_streaming()->set_shuffle_buffer(shuffle_buffer);
    spec->mutable_schedule()->mutable_cosine()->set_total_steps(15);
  }

  // Ends with a checkpoint of this number of steps.
  void SaveAfter(int64_t steps) {
    start_.mutable_spec()->mutable_loop()->set_max_steps(steps);
    Reports reports;
    Run(start_, &reports);
    start_.mutable_spec()->mutable_loop()->clear_max_steps();
    ResumeFrom("0", 1);
  }
};

TEST_F(ResumeTest, ResumedRunEqualsTheUninterruptedOne) { ExpectResumesEqualTheUninterruptedRun(); }

TEST_F(ResumeTest, ResumedRunWithAccumulatedStepsEqualsTheUninterruptedOne) {
  Accumulate(2, true);
  ExpectResumesEqualTheUninterruptedRun();
}

// Two evaluations come inside a step: a checkpoint has to wait for the step's end.
TEST_F(ResumeTest, ResumedRunWithStepsOverEpochsEqualsTheUninterruptedOne) {
  Accumulate(3, false);
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, ResumedRunWithAScaledLossEqualsTheUninterruptedOne) {
  ScaleLoss(start_.mutable_resolved_accelerator());
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, ResumedRunWithAMetricsScheduleEqualsTheUninterruptedOne) {
  for (const char* metric : {"train/loss", "eval/loss"}) {
    SCOPED_TRACE(metric);
    fs::remove_all(folder_ / "checkpoints");
    auto* plateau = start_.mutable_spec()->mutable_schedule()->mutable_reduce_on_plateau();
    plateau->set_metric(metric);
    plateau->set_patience(0);
    plateau->set_threshold(0.5);
    ExpectResumesEqualTheUninterruptedRun();
  }
}

TEST_F(ResumeTest, ResumedRunOfLbfgsEqualsTheUninterruptedOne) {
  auto* lbfgs = start_.mutable_spec()->mutable_optimizer()->mutable_lbfgs();
  lbfgs->set_max_iter(3);
  lbfgs->set_history_size(2);
  lbfgs->set_line_search_fn("strong_wolfe");
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, ResumedStreamEqualsTheUninterruptedOne) {
  Stream(/*shuffle_buffer=*/7);
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, ResumedStreamWithWorkersAndAccumulationEqualsTheUninterruptedOne) {
  Stream(/*shuffle_buffer=*/0);
  start_.mutable_spec()->mutable_data()->set_num_workers(2);
  Accumulate(2, true);
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, ResumedRunWithWorkersEqualsTheUninterruptedOne) {
  start_.mutable_spec()->mutable_data()->set_num_workers(3);
  start_.mutable_resolved_accelerator()->mutable_dataloader_config()->set_use_seedable_sampler(
      true);
  ExpectResumesEqualTheUninterruptedRun();
}

TEST_F(ResumeTest, MaxStepsMayEndInTheMiddleOfAnEpochAndBeContinued) {
  Reports whole;
  Run(start_, &whole);
  const NamedTensors weights = Weights("0");
  fs::remove_all(folder_ / "checkpoints");
  start_.mutable_spec()->mutable_schedule()->mutable_cosine()->set_total_steps(15);
  start_.mutable_spec()->mutable_loop()->set_max_steps(7);
  Reports first;
  EXPECT_EQ(Run(start_, &first).step(), 7);
  EXPECT_THAT(first.MetricSteps(), ElementsAre(5, 7));
  start_.mutable_spec()->mutable_loop()->clear_max_steps();
  ResumeFrom("0", 1);
  Reports second;
  Run(start_, &second);
  EXPECT_THAT(second.MetricSteps(), ElementsAre(10, 15));
  ExpectSame(Weights("1"), weights);
}

TEST_F(ResumeTest, RefusesAnotherModelOptimizerAndNumberOfBatches) {
  SaveAfter(15);
  StartAttempt other = start_;
  other.mutable_spec()->mutable_model()->mutable_mlp()->set_layer_sizes(1, 9);
  const absl::Status status = Fail(other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("of another model: of another shape or type: 1.weight is "
                                          "Float [8, 2] and must be Float [9, 2]"));
  EXPECT_EQ(CauseOf(status), Failure::JOB);

  other = start_;
  other.mutable_spec()->mutable_model()->mutable_mlp()->add_layer_sizes(2);
  EXPECT_THAT(Fail(other).message(), HasSubstr("of another model: missing: 7.weight Float [2, 2]"));

  other = start_;
  other.mutable_spec()->mutable_optimizer()->mutable_sgd();
  EXPECT_THAT(Fail(other).message(), HasSubstr("optimizer is adamw in the checkpoint and sgd"));

  other = start_;
  other.mutable_spec()->mutable_data()->set_batch_size(5);
  EXPECT_THAT(Fail(other).message(), HasSubstr("batches in an epoch is 5 in the checkpoint and 4"));
}

TEST_F(ResumeTest, RefusesAnotherBatchSizeInsideAnEpochOfAStream) {
  Stream(0);
  SaveAfter(7);
  start_.mutable_spec()->mutable_data()->set_batch_size(5);
  const absl::Status status = Fail(start_);
  EXPECT_EQ(CauseOf(status), Failure::JOB);
  EXPECT_THAT(status.message(), HasSubstr("number of samples in a batch of all ranks is 4 in the "
                                          "checkpoint and 5 in the job"));
}

TEST_F(ResumeTest, RefusesDamagedCheckpoints) {
  SaveAfter(15);
  const fs::path saved = folder_ / "checkpoints" / "0";
  for (const auto& entry : fs::directory_iterator(saved)) {
    if (entry.path().filename() == "manifest.json") continue;
    SCOPED_TRACE(entry.path());
    const std::string name = entry.path().filename();
    std::string contents;
    {
      std::ifstream stream(entry.path(), std::ios::binary);
      contents.assign(std::istreambuf_iterator<char>(stream), {});
    }
    const auto expect_refused = [&](const std::string& damaged, const std::string& reason) {
      std::ofstream(entry.path(), std::ios::binary) << damaged;
      const absl::Status status = Fail(start_);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(CauseOf(status), Failure::STORAGE);
      EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(name, " has ", reason)));
    };
    std::string flipped = contents;
    flipped[flipped.size() / 2] ^= 1;
    expect_refused(flipped, "sha-256 ");
    expect_refused(contents.substr(0, contents.size() - 1),
                   absl::StrCat(contents.size() - 1, " bytes, its manifest says"));
    std::ofstream(entry.path(), std::ios::binary) << contents;
  }
  fs::remove(saved / "scheduler.json");
  EXPECT_THAT(Fail(start_).message(), HasSubstr("scheduler.json is missing"));
  fs::remove(saved / "manifest.json");
  EXPECT_THAT(Fail(start_).message(), HasSubstr("manifest.json"));
}

TEST_F(ResumeTest, RefusesAnotherAccumulationAndAPlaceInsideAStep) {
  Accumulate(2, false);  // 15 batches: the last one only accumulates
  Reports reports;
  Run(start_, &reports);
  start_.set_resume_dir(folder_ / "checkpoints" / "0");
  start_.mutable_spec()->mutable_loop()->set_num_epochs(4);
  absl::Status status = Fail(start_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CauseOf(status), Failure::JOB);
  EXPECT_THAT(status.message(), HasSubstr("inside an accumulated step: epoch 3, batch 0"));
  Accumulate(3, false);
  EXPECT_THAT(Fail(start_).message(), HasSubstr("num_steps is 2 in the checkpoint and 3"));
}

TEST_F(ResumeTest, InsideAnEpochTheWorldSizeStays) {
  SaveAfter(7);
  std::vector<Reports> reports;
  for (const auto& finished : RunRanks(2, &reports)) {
    EXPECT_EQ(finished.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(CauseOf(finished.status()), Failure::JOB);
    EXPECT_THAT(
        finished.status().message(),
        HasSubstr("world size is 1 in the checkpoint and 2 in the job: the rest of epoch 1, "
                  "from batch 2 on"));
  }
}

// One round is the same four samples for one rank and, split, for two.
TEST_F(ResumeTest, BetweenEpochsTheWorldSizeMayChange) {
  start_.mutable_spec()->mutable_model()->mutable_mlp()->clear_dropout();
  start_.mutable_resolved_accelerator()->mutable_dataloader_config()->set_split_batches(true);
  start_.mutable_spec()->mutable_schedule()->mutable_cosine()->set_total_steps(15);
  Reports whole;
  Run(start_, &whole);
  const std::vector<double> losses = whole.Losses();
  const auto loss_of_all = [](const std::vector<Reports>& reports, size_t step) {
    double sum = 0;
    for (const Reports& rank : reports) sum += rank.Losses()[step];
    return sum / static_cast<double>(reports.size());
  };
  fs::remove_all(folder_ / "checkpoints");
  SaveAfter(5);
  std::vector<Reports> two;
  for (const auto& finished : RunRanks(2, &two)) ASSERT_TRUE(finished.ok()) << finished.status();
  ASSERT_EQ(two[0].Losses().size(), 10);
  // The last, short round of an epoch is completed with samples where there are two ranks.
  for (size_t step : {0, 1, 2, 3}) {
    EXPECT_NEAR(loss_of_all(two, step), losses[5 + step], 1e-6) << step;
  }

  // And back, from the end of the second epoch.
  start_.mutable_spec()->mutable_loop()->set_max_steps(10);
  ResumeFrom("0", 2);
  std::vector<Reports> second;
  for (const auto& finished : RunRanks(2, &second)) ASSERT_TRUE(finished.ok());
  start_.mutable_spec()->mutable_loop()->clear_max_steps();
  ResumeFrom("2", 3);
  Reports back;
  EXPECT_EQ(Run(start_, &back).step(), 15);
  for (size_t step : {0, 1, 2, 3}) {
    EXPECT_NEAR(back.Losses()[step], loss_of_all(two, 5 + step), 1e-6) << step;
  }
}

}  // namespace
}  // namespace accel::engine
