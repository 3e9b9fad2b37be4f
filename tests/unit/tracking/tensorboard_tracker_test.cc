#include "core/tracking/tensorboard_tracker.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/tracking/crc32c.h"
#include "core/tracking/factory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_clock.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::tensorboard::Event;
using accel::internal::v1::tensorboard::SessionLog;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Every event of a file; fails when a record is torn or its checksums are wrong.
std::vector<Event> ReadEvents(const fs::path& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = contents.str();
  absl::string_view rest = bytes;
  std::vector<Event> events;
  while (!rest.empty()) {
    const uint64_t size = LittleEndian(rest.substr(0, 8));
    EXPECT_EQ(LittleEndian(rest.substr(8, 4)), MaskedCrc32c(rest.substr(0, 8)));
    const absl::string_view payload = rest.substr(12, size);
    EXPECT_EQ(LittleEndian(rest.substr(12 + size, 4)), MaskedCrc32c(payload));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(payload.data(), payload.size()));
    rest.remove_prefix(16 + size);
  }
  return events;
}

LogCall Call(int64_t sequence, int64_t step) {
  LogCall call;
  call.sequence = sequence;
  call.step = step;
  call.time = absl::FromUnixMillis(1000 * sequence + 500);
  return call;
}

LogCall Scalar(int64_t sequence, int64_t step, const std::string& key, double number) {
  LogCall call = Call(sequence, step);
  call.values[key].set_number(number);
  return call;
}

class TensorBoardTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_tensorboard_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    run_ = root_ / "tensorboard" / "digits";
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<Tracker> MakeOne(const std::string& suffix = "") {
    accel::v1::TrackerSpec spec;
    spec.mutable_tensorboard()->set_filename_suffix(suffix);
    TrackerContext context;
    context.project = "digits";
    context.folder = root_;
    context.clock = &clock_;
    auto tracker = MakeTracker(spec, context);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    return *std::move(tracker);
  }

  static std::vector<fs::path> EventFilesIn(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().find("tfevents") != std::string::npos) {
        files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  // (step, value) of a scalar in all files of a folder.
  static std::vector<std::pair<int64_t, float>> Scalars(const fs::path& folder,
                                                        const std::string& tag) {
    std::vector<std::pair<int64_t, float>> scalars;
    for (const fs::path& file : EventFilesIn(folder)) {
      for (const Event& event : ReadEvents(file)) {
        for (const auto& value : event.summary().value()) {
          if (value.tag() == tag) scalars.emplace_back(event.step(), value.simple_value());
        }
      }
    }
    return scalars;
  }

  FakeClock clock_;
  fs::path root_;
  fs::path run_;
};

TEST_F(TensorBoardTrackerTest, NothingIsTouchedBeforeStart) {
  auto tracker = MakeOne();
  EXPECT_EQ(tracker->name(), "tensorboard");
  EXPECT_TRUE(tracker->requires_logging_directory());
  EXPECT_TRUE(tracker->main_process_only());
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(TensorBoardTrackerTest, WritesARun) {
  auto tracker = MakeOne(".end");
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  ASSERT_TRUE(tracker->StoreInitConfiguration({{"lr", 0.5}}).ok());
  LogCall call = Call(4, 10);
  call.values["loss"].set_number(0.25);
  call.values["note"].set_text("bad \xff byte");
  (*call.values["acc/top"].mutable_map()->mutable_values())["a/b"] = 1;
  ASSERT_TRUE(tracker->Log({call, Scalar(6, 11, "loss", 0.125)}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());

  ASSERT_THAT(EventFilesIn(run_), SizeIs(1));
  EXPECT_THAT(EventFilesIn(run_)[0].string(), ::testing::EndsWith(".end"));
  const std::vector<Event> events = ReadEvents(EventFilesIn(run_)[0]);
  ASSERT_THAT(events, SizeIs(5));
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].summary().value(0).tag(), "_hparams_/session_start_info");
  EXPECT_EQ(events[2].step(), 10);
  EXPECT_EQ(events[2].wall_time(), 4.5);
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 0.25f);
  const auto& text = events[2].summary().value(1);
  EXPECT_EQ(text.tag(), "note/text_summary");
  EXPECT_EQ(text.metadata().plugin_data().plugin_name(), "text");
  EXPECT_EQ(text.tensor().dtype(), 7);
  EXPECT_EQ(text.tensor().tensor_shape().dim(0).size(), 1);
  EXPECT_THAT(text.tensor().string_val(), ElementsAre("bad \uFFFD byte"));
  EXPECT_EQ(events[4].summary().value(0).tag(), "_hparams_/session_end_info");
  EXPECT_THAT(Scalars(run_ / "acc_top_a_b", "acc/top"), ElementsAre(Pair(10, 1)));
  EXPECT_TRUE(fs::exists(run_ / "hparams.yml"));
  EXPECT_THAT(tracker->TakeWarnings(), IsEmpty());
}

TEST_F(TensorBoardTrackerTest, NamesOfMapsStayInTheRunsFolder) {
  auto tracker = MakeOne();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  LogCall call = Call(1, 1);
  auto& values = *call.values[".."].mutable_map()->mutable_values();
  values["/../../x"] = 1;
  values[std::string("n\0l", 3)] = 2;
  values[std::string(1000, 'l')] = 3;
  values[std::string(1001, 'l')] = 4;
  ASSERT_TRUE(tracker->Log({call}).ok());
  EXPECT_TRUE(fs::exists(run_ / ".._n_l"));
  EXPECT_TRUE(fs::exists(run_ / ".._"
                                "_.._.._x"));
  // Two long names are still two.
  EXPECT_EQ(std::distance(fs::directory_iterator(run_), fs::directory_iterator()), 5);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(TensorBoardTrackerTest, RestartOpensANewFileWithASessionMark) {
  auto first = MakeOne();
  ASSERT_TRUE(first->Start(std::nullopt).ok());
  ASSERT_TRUE(first->Log({Scalar(1, 1, "loss", 1), Scalar(2, 2, "loss", 2)}).ok());
  auto second = MakeOne();
  ASSERT_TRUE(second->Start(2).ok());
  ASSERT_TRUE(second->Log({Scalar(2, 2, "loss", 2)}).ok());
  ASSERT_THAT(EventFilesIn(run_), SizeIs(2));
  EXPECT_THAT(ReadEvents(EventFilesIn(run_)[0]), SizeIs(3));
  const std::vector<Event> events = ReadEvents(EventFilesIn(run_)[1]);
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].session_log().status(), SessionLog::START);
  EXPECT_EQ(events[1].step(), 2);
}

TEST_F(TensorBoardTrackerTest, RowsThatComeAgainAreWrittenOnce) {
  auto tracker = MakeOne();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  // The sub-run's folder cannot be made: a file has its name.
  std::ofstream(run_ / "map_a") << "x";
  LogCall call = Scalar(2, 2, "loss", 2);
  (*call.values["map"].mutable_map()->mutable_values())["a"] = 5;
  const std::vector<LogCall> calls = {Scalar(1, 1, "loss", 1), call, Scalar(3, 3, "loss", 3)};
  EXPECT_FALSE(tracker->Log(calls).ok());
  EXPECT_FALSE(tracker->Log(calls).ok());
  fs::remove(run_ / "map_a");
  ASSERT_TRUE(tracker->Log(calls).ok());
  ASSERT_TRUE(tracker->Log(calls).ok());
  EXPECT_THAT(Scalars(run_, "loss"), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 3)));
  EXPECT_THAT(Scalars(run_ / "map_a", "map"), ElementsAre(Pair(2, 5)));
  EXPECT_THAT(tracker->TakeWarnings(), IsEmpty());
}

TEST_F(TensorBoardTrackerTest, WarnsOnceOfEachThingThatIsLost) {
  auto tracker = MakeOne();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  ASSERT_TRUE(tracker->Log({Scalar(1, 5, "loss", 1), Scalar(2, 4, "loss", -1e300)}).ok());
  EXPECT_THAT(tracker->TakeWarnings(),
              ElementsAre(HasSubstr("beyond float32"), HasSubstr("back from 5 to 4")));
  LogCall empty = Call(5, 5);
  empty.values["void"];
  ASSERT_TRUE(tracker->Log({Scalar(3, 3, "loss", 1e300), Scalar(4, 4, "loss", 1), empty}).ok());
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("void")));
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Scalars(run_, "loss"),
              ElementsAre(Pair(5, 1), Pair(4, -infinity), Pair(3, infinity), Pair(4, 1)));
}

TEST_F(TensorBoardTrackerTest, FinishCanBeRepeated) {
  auto tracker = MakeOne();
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kFailed).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kFailed).ok());
  EXPECT_THAT(ReadEvents(EventFilesIn(run_)[0]), SizeIs(2));
}

TEST(FactoryTest, ASpecWithoutAKindIsRefused) {
  EXPECT_EQ(MakeTracker({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FactoryTest, AServiceHasAnArchiveBesideIt) {
  accel::v1::TrackerSpec swanlab, comet, clearml;
  swanlab.mutable_swanlab();
  comet.mutable_comet_ml();
  clearml.mutable_clearml();
  for (const accel::v1::TrackerSpec& spec : {swanlab, comet, clearml}) {
    const auto trackers = MakeTrackers(spec, {});
    ASSERT_TRUE(trackers.ok()) << trackers.status();
    ASSERT_THAT(*trackers, SizeIs(2));
    EXPECT_EQ((*trackers)[1]->name(), absl::StrCat((*trackers)[0]->name(), "_archive"));
  }
}

TEST(FactoryTest, OfflineIsTheArchiveAloneUnderTheTrackersName) {
  accel::v1::TrackerSpec swanlab, comet, clearml;
  swanlab.mutable_swanlab()->set_mode("offline");
  comet.mutable_comet_ml()->set_online(false);
  clearml.mutable_clearml()->set_offline(true);
  const std::vector<std::pair<accel::v1::TrackerSpec, std::string>> specs = {
      {swanlab, "swanlab"}, {comet, "comet_ml"}, {clearml, "clearml"}};
  for (const auto& [spec, name] : specs) {
    const auto trackers = MakeTrackers(spec, {});
    ASSERT_TRUE(trackers.ok()) << trackers.status();
    ASSERT_THAT(*trackers, SizeIs(1));
    EXPECT_EQ((*trackers)[0]->name(), name);
  }
}

TEST(FactoryTest, NamesMustNotLeaveTheFolder) {
  accel::v1::TrackerSpec spec;
  spec.mutable_tensorboard();
  TrackerContext context;
  for (const char* project : {"", "..", "a/b", ".hidden"}) {
    context.project = project;
    EXPECT_EQ(MakeTracker(spec, context).status().code(), absl::StatusCode::kInvalidArgument);
  }
  context.project = "ok";
  EXPECT_TRUE(MakeTracker(spec, context).ok());
  spec.mutable_tensorboard()->set_filename_suffix("/x");
  EXPECT_EQ(MakeTracker(spec, context).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FactoryTest, BatchDelayIsFlushSecs) {
  accel::v1::TrackerSpec spec;
  spec.mutable_tensorboard();
  EXPECT_EQ(BatchDelay(spec), absl::Milliseconds(200));
  spec.mutable_tensorboard()->set_flush_secs(0);
  EXPECT_EQ(BatchDelay(spec), absl::ZeroDuration());
}

}  // namespace
}  // namespace accel::tracking
