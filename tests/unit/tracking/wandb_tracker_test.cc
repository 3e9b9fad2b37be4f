#include "core/tracking/wandb/wandb_tracker.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "core/tracking/http/delivery_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_http.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::wandb::RunRecord;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kKey(40, 'k');

class WandBTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_wandb_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    server_.answer = [this](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
      if (absl::EndsWith(request.url, "/graphql")) {
        return FakeServer::Json(200,
                                R"({"data":{"upsertBucket":{"bucket":{"historyLineCount":)" +
                                    std::to_string(server_lines_) +
                                    R"(,"project":{"name":"project","entity":{"name":"e"}}}}}})");
      }
      if (down_) return absl::UnavailableError("down");
      return FakeServer::Json(200, "{}");
    };
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Tracker> Make(const std::string& mode, const std::string& key = kKey) {
    TrackerContext context = ContextOf(&server_);
    context.folder = folder_;
    context.settings =
        TrackerSettings({{"WANDB_MODE", mode}, {"WANDB_TAGS", "a,b"}}, {{"WANDB_API_KEY", key}});
    accel::v1::WandBTracker spec;
    spec.set_id("run1");
    auto tracker = WandBTracker::Make(spec, context);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    return *std::move(tracker);
  }
  std::unique_ptr<Tracker> Started(const std::string& mode) {
    auto tracker = Make(mode);
    EXPECT_TRUE(tracker->Start(std::nullopt).ok());
    return tracker;
  }

  // The history of the log, read by the class itself.
  std::vector<json> LogLines() {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() != ".wandb") continue;
      const auto log = WandBLog::Open(entry.path(), RunRecord(), 0);
      EXPECT_TRUE(log.ok()) << log.status();
      std::vector<json> lines;
      for (std::string line : log->lines()) {
        // As Python reads them.
        for (const char* const word : {":NaN", ":Infinity", ":-Infinity"}) {
          for (size_t at; (at = line.find(word)) != std::string::npos;) {
            line.replace(at, std::string(word).size(), std::string(":\"") + (word + 1) + "\"");
          }
        }
        lines.push_back(json::parse(line));
      }
      return lines;
    }
    return {};
  }
  // {offset, number of lines} of each request.
  std::vector<std::pair<int, int>> SentLines() {
    std::vector<std::pair<int, int>> sent;
    for (const json& body : server_.Bodies("/file_stream")) {
      if (!body.contains("files")) continue;
      const json& history = body["files"]["wandb-history.jsonl"];
      sent.emplace_back(history["offset"], history["content"].size());
    }
    return sent;
  }

  fs::path folder_;
  FakeServer server_;
  int server_lines_ = 0;
  bool down_ = false;
};

TEST_F(WandBTrackerTest, RowsOfOneStepAreOneRowAndSmallerStepsAreLeftOut) {
  auto tracker = Started("offline");
  LogCall evaluation = Row(2, 1, "eval", 2);
  ASSERT_TRUE(tracker->Log({Row(1, 1, "loss", 1), evaluation, Row(3, 4, "loss", 3)}).ok());
  EXPECT_EQ(tracker->held_from(), 3);
  ASSERT_TRUE(tracker->Log({Row(4, 3, "loss", 9), Row(5, 6, "loss", 5)}).ok());
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("a row of step 3 came after step 4")));
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  const std::vector<json> lines = LogLines();
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["_step"], 1);
  EXPECT_EQ(lines[0]["loss"], 1);
  EXPECT_EQ(lines[0]["eval"], 2);
  EXPECT_EQ(lines[0]["_timestamp"], 1700000102);
  EXPECT_EQ(lines[0]["_runtime"], 102);
  EXPECT_EQ(lines[1]["_step"], 4);
  EXPECT_EQ(lines[2]["_step"], 6);
  EXPECT_THAT(server_.requests, IsEmpty());
}

TEST_F(WandBTrackerTest, WordsMapsTextsAndOwnKeys) {
  auto tracker = Started("offline");
  LogCall call = Row(1, 0, "nan", std::nan(""));
  call.values["down"].set_number(-std::numeric_limits<double>::infinity());
  call.values["text"].set_text("a\"b\xff");
  (*call.values["map"].mutable_map()->mutable_values())["x/y"] = 2;
  call.values["_step"].set_number(77);
  ASSERT_TRUE(tracker->Log({call}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kFailed).ok());
  const json line = LogLines().at(0);
  EXPECT_EQ(line["nan"], "NaN");
  EXPECT_EQ(line["down"], "-Infinity");
  EXPECT_EQ(line["text"], "a\"b\xef\xbf\xbd");
  EXPECT_EQ(line["map"], (json{{"x/y", 2}}));
  EXPECT_EQ(line["_step"], 0);
  EXPECT_EQ(line["__step"], 77);
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("_step is a key of wandb's own")));
}

TEST_F(WandBTrackerTest, ARestartGoesOnBehindTheLastWholeRow) {
  {
    auto tracker = Started("offline");
    ASSERT_TRUE(tracker->Log({Row(1, 1, "a", 1), Row(2, 2, "a", 2), Row(3, 3, "a", 3)}).ok());
    EXPECT_EQ(tracker->held_from(), 3);
  }
  auto tracker = Started("offline");
  // The feed comes back with what was held, and perhaps with rows before it.
  ASSERT_TRUE(tracker->Log({Row(2, 2, "a", 2), Row(3, 3, "a", 3), Row(4, 4, "a", 4)}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  const std::vector<json> lines = LogLines();
  ASSERT_EQ(lines.size(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lines[i]["a"], i + 1);
}

TEST_F(WandBTrackerTest, LinesAreSentBehindThoseThatTheServerHas) {
  server_lines_ = 10;
  {
    auto tracker = Started("online");
    EXPECT_EQ(tracker->location(), "https://wandb.ai/e/project/runs/run1");
    ASSERT_TRUE(tracker->Log({Row(1, 1, "a", 1), Row(2, 2, "a", 2), Row(3, 3, "a", 3)}).ok());
    EXPECT_THAT(SentLines(), ElementsAre(std::pair(10, 2)));
    down_ = true;
    EXPECT_TRUE(absl::IsUnavailable(tracker->Log({Row(4, 4, "a", 4)})));
    // Once more, as the feed does it: the same line at the same place.
    down_ = false;
    ASSERT_TRUE(tracker->Log({Row(4, 4, "a", 4)}).ok());
    EXPECT_THAT(SentLines(), ElementsAre(std::pair(10, 2), std::pair(12, 1), std::pair(12, 1)));
  }
  // Another process: the server has one line less than the log, row 4 was held and comes again.
  server_lines_ = 12;
  auto tracker = Started("online");
  ASSERT_TRUE(tracker->Log({Row(4, 4, "a", 4)}).ok());
  EXPECT_EQ(SentLines().back(), std::pair(12, 1));
  ASSERT_TRUE(tracker->Finish(RunOutcome::kFailed).ok());
  EXPECT_EQ(SentLines().back(), std::pair(13, 1));
  EXPECT_EQ(server_.Bodies("/file_stream").back(), (json{{"complete", true}, {"exitcode", 1}}));
}

TEST_F(WandBTrackerTest, ConfigurationIsWrappedForTheServer) {
  auto tracker = Started("online");
  ASSERT_TRUE(tracker->StoreInitConfiguration({{"lr", 0.1}, {"on", true}, {"s", "t"}}).ok());
  const json variables = server_.Bodies("/graphql").back()["variables"];
  EXPECT_EQ(json::parse(variables["config"].get<std::string>()),
            json::parse(R"({"lr":{"value":0.1},"on":{"value":true},"s":{"value":"t"}})"));
  EXPECT_EQ(server_.Bodies("/graphql").front()["variables"]["tags"], (json{"a", "b"}));
}

TEST_F(WandBTrackerTest, KeysThatCannotBeAreRefusedForGood) {
  const absl::Status none = Make("online", "")->Start(std::nullopt);
  EXPECT_TRUE(IsPermanent(none));
  EXPECT_THAT(std::string(none.message()), HasSubstr("has no secret WANDB_API_KEY"));
  const absl::Status cut = Make("online", "short-key")->Start(std::nullopt);
  EXPECT_TRUE(IsPermanent(cut));
  EXPECT_FALSE(absl::StrContains(cut.message(), "short-key"));
  EXPECT_THAT(server_.requests, IsEmpty());
}

TEST_F(WandBTrackerTest, DisabledTakesAllAndWritesNothing) {
  auto tracker = Started("disabled");
  ASSERT_TRUE(tracker->StoreInitConfiguration({}).ok());
  ASSERT_TRUE(tracker->Log({Row(1, 1, "a", 1)}).ok());
  ASSERT_TRUE(tracker->Finish(RunOutcome::kSucceeded).ok());
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(tracker->location(), "");
}

}  // namespace
}  // namespace accel::tracking
