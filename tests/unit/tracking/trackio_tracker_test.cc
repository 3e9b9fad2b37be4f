#include "core/tracking/trackio/trackio_tracker.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "core/base/sqlite.h"
#include "core/tracking/http/delivery_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_http.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class TrackioTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_trackio_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::TrackioTracker& spec,
                                                const std::string& project = "project") {
    TrackerContext context = ContextOf(&server_);
    context.folder = folder_;
    context.project = project;
    context.settings = TrackerSettings({}, {{"TRACKIO_WRITE_TOKEN", "tok"}});
    return TrackioTracker::Make(spec, context);
  }
  std::unique_ptr<Tracker> Started(const accel::v1::TrackioTracker& spec) {
    auto tracker = Make(spec);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    EXPECT_TRUE((*tracker)->Start(std::nullopt).ok());
    EXPECT_TRUE((*tracker)->StoreInitConfiguration({{"lr", 0.1}, {"_own", "x"}}).ok());
    return *std::move(tracker);
  }
  static accel::v1::TrackioTracker Server() {
    accel::v1::TrackioTracker spec;
    spec.set_server_url("http://trackio:7860");
    return spec;
  }
  static accel::v1::TrackioTracker Inbox() {
    accel::v1::TrackioTracker spec;
    spec.set_storage("inbox");
    return spec;
  }

  // Objects of all fragments, in order.
  std::vector<json> Fragments() {
    std::set<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "trackio" / "inbox")) {
      if (entry.path().extension() == ".jsonl") paths.insert(entry.path());
    }
    std::vector<json> lines;
    for (const fs::path& path : paths) {
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    }
    return lines;
  }

  fs::path folder_;
  FakeServer server_;
};

TEST_F(TrackioTrackerTest, ARowIsInTheDatabaseOnceHoweverOftenItComes) {
  for (int process = 0; process < 2; ++process) {
    auto tracker = Started({});
    ASSERT_TRUE(tracker->Log({Row(1, 5, "a", 1), Row(2, 4, "a", 2)}).ok());
    ASSERT_TRUE(tracker->Log({Row(2, 4, "a", 2)}).ok());
    ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  }
  const auto database = *SqliteDatabase::Open(folder_ / "trackio" / "project.db");
  auto select =
      *database->Prepare("SELECT step, metrics, timestamp, run_name FROM metrics ORDER BY id");
  std::vector<std::string> rows;
  while (*select.Step()) {
    rows.push_back(absl::StrCat(select.Int64(0), " ", select.Text(1), " ", select.Text(2), " ",
                                select.Text(3)));
  }
  EXPECT_THAT(rows, ElementsAre("5 {\"a\":1.0} 2023-11-14T22:15:01.000000+00:00 job",
                                "4 {\"a\":2.0} 2023-11-14T22:15:02.000000+00:00 job"));
  auto configs = *database->Prepare("SELECT config FROM configs");
  ASSERT_TRUE(*configs.Step());
  const json config = json::parse(configs.Text(0));
  EXPECT_EQ(config["lr"], 0.1);
  EXPECT_EQ(config["own"], "x");
  EXPECT_FALSE(config.contains("allow_val_change"));
  EXPECT_FALSE(*configs.Step());
}

TEST_F(TrackioTrackerTest, FragmentsAreWholeAndNumberedBehindThoseThatAreThere) {
  for (int process = 0; process < 2; ++process) {
    auto tracker = Started(Inbox());
    ASSERT_TRUE(tracker->Log({Row(1, 1, "a", 1), Row(2, 2, "a", 2)}).ok());
  }
  const std::vector<json> lines = Fragments();
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[0]["kind"], "metric");
  EXPECT_EQ(lines[0]["config"]["lr"], 0.1);
  // The same row has the same id, by which the import knows it.
  EXPECT_EQ(lines[0]["log_id"], lines[2]["log_id"]);
  EXPECT_NE(lines[0]["log_id"], lines[1]["log_id"]);
}

TEST_F(TrackioTrackerTest, WordsMapsTextsAndOwnKeys) {
  auto tracker = Started(Inbox());
  LogCall call = Row(1, 0, "nan", std::nan(""));
  call.values["text"].set_text("t\xff");
  (*call.values["map"].mutable_map()->mutable_values())["deep"] = -HUGE_VAL;
  call.values["step"].set_number(7);
  call.values["__x"].set_number(8);
  ASSERT_TRUE(tracker->Log({call}).ok());
  EXPECT_EQ(Fragments().at(0)["metrics"], json::parse(R"({"nan":"NaN","text":"t\ufffd",)"
                                                      R"("map":{"deep":"-Infinity"},)"
                                                      R"("__step":7.0,"____x":8.0})"));
  EXPECT_THAT(tracker->TakeWarnings(),
              UnorderedElementsAre(HasSubstr("_own is shown as own"), HasSubstr("shown as __step"),
                                   HasSubstr("shown as ____x")));
}

TEST_F(TrackioTrackerTest, AServerGetsTheTokenAndItsRefusalsAreTold) {
  auto tracker = Started(Server());
  EXPECT_THAT(server_.requests, IsEmpty());
  ASSERT_TRUE(tracker->Log({Row(1, 1, "a", 1)}).ok());
  EXPECT_THAT(server_.requests.at(0).headers, ::testing::Contains("X-Trackio-Write-Token: tok"));
  const json kwargs = server_.Bodies("/api/bulk_log").at(0)["kwargs"];
  EXPECT_TRUE(kwargs.at("hf_token").is_null());
  EXPECT_EQ(kwargs["logs"].size(), 1);
  server_.answer = [](const HttpRequest&) {
    return FakeServer::Json(400, R"({"error":"a write_token is needed"})");
  };
  EXPECT_TRUE(IsPermanent(tracker->Log({Row(2, 2, "a", 1)})));
  server_.answer = [](const HttpRequest&) { return FakeServer::Json(200, R"({"error":"busy"})"); };
  const absl::Status busy = tracker->Log({Row(2, 2, "a", 1)});
  EXPECT_TRUE(absl::IsUnavailable(busy));
  EXPECT_FALSE(IsPermanent(busy));
}

TEST_F(TrackioTrackerTest, ProjectsThatTrackioWouldMixUpAreTold) {
  auto tracker = Make({}, "my.proj");
  ASSERT_TRUE(tracker.ok());
  ASSERT_TRUE((*tracker)->Start(std::nullopt).ok());
  EXPECT_THAT((*tracker)->TakeWarnings(), ElementsAre(HasSubstr("\"my.proj\" as \"myproj\"")));
  for (const char* const name : {"registry-x", "x_system", "x_configs", "x_traces"}) {
    EXPECT_FALSE(Make({}, name).ok()) << name;
  }
}

}  // namespace
}  // namespace accel::tracking
