#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "accel/internal/v1/swanlab.pb.h"
#include "core/tracking/block_log.h"
#include "core/tracking/clearml/session_tracker.h"
#include "core/tracking/comet/archive_tracker.h"
#include "core/tracking/row_file.h"
#include "core/tracking/swanlab/file_tracker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

// The files that packages upload later: whatever was killed when, each value is in them once.

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

LogCall Row(int64_t sequence) {
  LogCall call;
  call.sequence = sequence;
  call.step = sequence - 1;
  call.time = absl::FromUnixSeconds(1'700'000'000 + sequence);
  call.values["loss"].set_number(0.5 * static_cast<double>(sequence));
  return call;
}

// `<step>=<value>` of rows 1 to `count`.
std::vector<std::string> Rows(int count) {
  std::vector<std::string> rows;
  for (int i = 1; i <= count; ++i) rows.push_back(absl::StrCat(i - 1, "=", 0.5 * i));
  return rows;
}

class ArchivesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Tracker> SwanLab() {
    swanlab::RunOptions options;
    options.project = "p";
    options.id = "abcdefgh";
    return std::make_unique<swanlab::FileTracker>("swanlab", folder_, options, &Clock::Real());
  }
  std::unique_ptr<Tracker> Comet() {
    comet::ExperimentOptions options;
    options.key = std::string(32, 'a');
    return std::make_unique<comet::ArchiveTracker>("comet_ml", folder_, options, &Clock::Real(),
                                                   &FileSystem::Real());
  }
  std::unique_ptr<Tracker> ClearML() {
    return std::make_unique<clearml::SessionTracker>("clearml", folder_, "offline-1",
                                                     clearml::TaskOptions{"p", "n", {}, "", ""},
                                                     &Clock::Real(), &FileSystem::Real());
  }

  fs::path SwanLabFile() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      return entry.path() / "run-abcdefgh.swanlab";
    }
    return {};
  }
  std::vector<std::string> SwanLabRows() {
    std::vector<std::string> rows;
    const auto log = BlockLog::Open(SwanLabFile(), ":SWL\xD6\xE1\x02", [&](absl::string_view data) {
      accel::internal::v1::swanlab::Record record;
      ASSERT_TRUE(record.ParseFromArray(data.data(), static_cast<int>(data.size())));
      if (!record.has_scalar()) return;
      rows.push_back(absl::StrCat(record.scalar().step(), "=", record.scalar().value().number()));
    });
    EXPECT_TRUE(log.ok()) << log.status();
    return rows;
  }
  std::vector<std::string> CometRows() {
    std::vector<std::string> rows;
    std::istringstream lines(ReadText(folder_ / std::string(32, 'a') / "messages.json"));
    for (std::string line; std::getline(lines, line);) {
      const json message = json::parse(line);
      if (message["type"] != "metric_msg") continue;
      const json metric = message["payload"]["metric"];
      rows.push_back(
          absl::StrCat(metric["step"].get<int64_t>(), "=", metric["metricValue"].get<double>()));
    }
    return rows;
  }
  std::vector<std::string> ClearMLRows() {
    std::vector<std::string> rows;
    std::istringstream lines(ReadText(folder_ / "offline-1" / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      for (const json& event : json::parse(line)) {
        rows.push_back(
            absl::StrCat(event["iter"].get<int64_t>(), "=", event["value"].get<double>()));
      }
    }
    return rows;
  }

  // A process that is killed after `calls`, which it may have got before.
  void Killed(std::unique_ptr<Tracker> tracker, const std::vector<LogCall>& calls) {
    ASSERT_TRUE(tracker->Start(std::nullopt).ok());
    ASSERT_TRUE(tracker->StoreInitConfiguration({{"lr", 0.1}}).ok());
    ASSERT_TRUE(tracker->Log(calls).ok());
  }

  fs::path folder_;
};

TEST_F(ArchivesTest, RowsThatComeAgainAreInSwanLabsFileOnce) {
  Killed(SwanLab(), {Row(1), Row(2)});
  Killed(SwanLab(), {Row(2), Row(3)});
  EXPECT_EQ(SwanLabRows(), Rows(3));
}

TEST_F(ArchivesTest, RowsThatComeAgainAreInCometsMessagesOnce) {
  Killed(Comet(), {Row(1), Row(2)});
  Killed(Comet(), {Row(2), Row(3)});
  EXPECT_EQ(CometRows(), Rows(3));
}

TEST_F(ArchivesTest, RowsThatComeAgainAreInClearMLsSessionOnce) {
  Killed(ClearML(), {Row(1), Row(2)});
  Killed(ClearML(), {Row(2), Row(3)});
  EXPECT_EQ(ClearMLRows(), Rows(3));
}

TEST_F(ArchivesTest, ATornTailIsCutOff) {
  Killed(SwanLab(), {Row(1), Row(2)});
  std::ofstream(SwanLabFile(), std::ios::app) << "half a rec";
  Killed(SwanLab(), {Row(3)});
  EXPECT_EQ(SwanLabRows(), Rows(3));
}

TEST_F(ArchivesTest, ABatchOfWhichThePositionKnowsNothingIsWrittenOver) {
  Killed(Comet(), {Row(1)});
  const fs::path messages = folder_ / std::string(32, 'a') / "messages.json";
  std::ofstream(messages, std::ios::app) << "{\"type\":\"metric_msg\",\"payl";
  Killed(Comet(), {Row(2)});
  EXPECT_EQ(CometRows(), Rows(2));
}

TEST_F(ArchivesTest, ARunThatHasEndedTakesNoMore) {
  auto tracker = SwanLab();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  ASSERT_TRUE(tracker->Log({Row(1)}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  EXPECT_FALSE(tracker->Log({Row(2)}).ok());
  EXPECT_EQ(SwanLabRows(), Rows(1));
}

TEST_F(ArchivesTest, CometsSamplingIsSaid) {
  auto tracker = Comet();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  std::vector<LogCall> calls;
  for (int i = 1; i <= 15001; ++i) calls.push_back(Row(i));
  ASSERT_TRUE(tracker->Log(calls).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("COMET_OFFLINE_SAMPLING_SIZE=15001")));
}

TEST_F(ArchivesTest, RowFileRefusesWhatNoCrashMakes) {
  const fs::path path = folder_ / "rows", position = folder_ / "position";
  auto file = RowFile::Open(path, position, &FileSystem::Real());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("one\n", 1, {{"n", 1}}).ok());
  EXPECT_EQ(RowFile::Open(path, position, &FileSystem::Real())->state(), json({{"n", 1}}));
  fs::resize_file(path, 2);
  EXPECT_EQ(RowFile::Open(path, position, &FileSystem::Real()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace accel::tracking
