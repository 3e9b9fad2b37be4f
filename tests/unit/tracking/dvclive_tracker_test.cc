#include "core/tracking/dvclive/dvclive_tracker.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DVCLiveTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<DVCLiveTracker> Started() {
    auto tracker = std::make_unique<DVCLiveTracker>(folder_, "dvclive", &FileSystem::Real());
    EXPECT_TRUE(tracker->Start(std::nullopt).ok());
    return tracker;
  }

  std::string Text(const std::string& file) const {
    std::ifstream in(folder_ / "dvclive" / file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  static LogCall Row(int64_t step, const std::string& key, double number) {
    LogCall call;
    call.step = step;
    call.values[key].set_number(number);
    return call;
  }

  fs::path folder_;
};

TEST_F(DVCLiveTrackerTest, ThePackagesFiles) {
  auto tracker = Started();
  ASSERT_TRUE(tracker->StoreInitConfiguration({{"lr", 1e-05}, {"name", std::string("a")}}).ok());
  LogCall row = Row(3, "train/loss", 0.5);
  row.values["note"].set_text("two\twords");
  row.values["lr"].set_number(1e-05);
  ASSERT_TRUE(tracker->Log({row, Row(4, "train/loss", 2)}).ok());
  EXPECT_EQ(Text("plots/metrics/train/loss.tsv"), "step\tloss\n3\t0.5\n4\t2.0\n");
  EXPECT_EQ(Text("plots/metrics/note.tsv"), "step\tnote\n3\t\"two\twords\"\n");
  EXPECT_EQ(Text("plots/metrics/lr.tsv"), "step\tlr\n3\t1e-05\n");
  const auto summary = nlohmann::json::parse(Text("metrics.json"));
  EXPECT_EQ(summary,
            nlohmann::json(
                {{"lr", 1e-05}, {"note", "two\twords"}, {"step", 4}, {"train", {{"loss", 2.0}}}}));
  EXPECT_THAT(Text("params.yaml"), HasSubstr("lr: 1.0e-05"));
  EXPECT_THAT(Text("../dvc.yaml"), HasSubstr("- dvclive/metrics.json"));
  EXPECT_THAT(tracker->TakeWarnings(), IsEmpty());
}

TEST_F(DVCLiveTrackerTest, NumbersThatJsonDoesNotHave) {
  auto tracker = Started();
  const double infinity = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(tracker->Log({Row(0, "a", std::nan("")), Row(1, "a", -infinity)}).ok());
  EXPECT_EQ(Text("plots/metrics/a.tsv"), "step\ta\n0\tnan\n1\t-inf\n");
  EXPECT_EQ(nlohmann::json::parse(Text("metrics.json"))["a"], "-inf");
}

TEST_F(DVCLiveTrackerTest, RowsThatComeAgainAfterAKillAreThereOnce) {
  ASSERT_TRUE(Started()->Log({Row(0, "a", 1), Row(1, "a", 2)}).ok());
  std::ofstream(folder_ / "dvclive/plots/metrics/a.tsv", std::ios::app) << "2\t3";
  auto tracker = Started();
  ASSERT_TRUE(tracker->Log({Row(1, "a", 2), Row(2, "a", 3.5)}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kFailed).ok());
  EXPECT_EQ(Text("plots/metrics/a.tsv"), "step\ta\n0\t1.0\n1\t2.0\n2\t3.5\n");
}

TEST_F(DVCLiveTrackerTest, KeysDoNotLeaveTheFolder) {
  auto tracker = Started();
  ASSERT_TRUE(tracker->Log({Row(0, "../../up", 1), Row(0, "/root", 2)}).ok());
  EXPECT_EQ(Text("plots/metrics/_/_/up.tsv"), "step\tup\n0\t1.0\n");
  EXPECT_EQ(Text("plots/metrics/_/root.tsv"), "step\troot\n0\t2.0\n");
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("../../up is stored as _/_/up"),
                                                   HasSubstr("/root is stored as _/root")));
}

TEST_F(DVCLiveTrackerTest, AKeyBelowAnotherIsSaid) {
  auto tracker = Started();
  ASSERT_TRUE(tracker->Log({Row(0, "a", 1), Row(0, "a/b", 2)}).ok());
  EXPECT_EQ(Text("plots/metrics/a/b.tsv"), "step\tb\n0\t2.0\n");
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("a/b is not in metrics.json")));
}

}  // namespace
}  // namespace accel::tracking
