#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tracking/clearml/events.h"
#include "core/tracking/comet/messages.h"
#include "core/tracking/swanlab/points.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// What the values of a row become at each service.

namespace accel::tracking {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A row of step 3 with a number, a text, a map and numbers that are not finite.
LogCall MixedRow() {
  LogCall call;
  call.step = 3;
  call.time = absl::FromUnixMillis(1'700'000'000'123);
  call.values["a/loss"].set_number(0.5);
  call.values["bad"].set_number(std::nan(""));
  call.values["big"].set_number(-kInfinity);
  auto& map = *call.values["lr"].mutable_map()->mutable_values();
  map["head"] = 1;
  map["body"] = 2;
  call.values["note"].set_text("hello");
  call.values["numeric"].set_text("1.5");
  return call;
}

std::vector<std::string> Text(const std::vector<swanlab::Point>& points) {
  std::vector<std::string> texts;
  for (const swanlab::Point& point : points) {
    texts.push_back(absl::StrCat(point.key, "@", point.step, "=", point.value));
  }
  return texts;
}

TEST(SwanLabPointsTest, ARow) {
  Omissions omissions;
  EXPECT_THAT(Text(swanlab::Points(&omissions).Of({MixedRow()})),
              ElementsAre("a/loss@3=0.5", "bad@3=nan", "big@3=-inf", "lr/body@3=2", "lr/head@3=1",
                          "numeric@3=1.5"));
  EXPECT_THAT(omissions.Take(), ElementsAre(HasSubstr("note has a value that is no number")));
}

TEST(SwanLabPointsTest, TheFirstValueOfAStepCounts) {
  Omissions omissions;
  swanlab::Points points(&omissions);
  points.Held("a/loss", 3);
  LogCall again = MixedRow();
  LogCall next = MixedRow();
  next.step = 4;
  std::vector<std::string> keys;
  for (const swanlab::Point& point : points.Of({again, next, next})) {
    if (point.key == "a/loss") keys.push_back(absl::StrCat(point.step));
  }
  EXPECT_THAT(keys, ElementsAre("4"));
}

TEST(SwanLabPointsTest, KeysAndSteps) {
  Omissions omissions;
  const swanlab::Points points(&omissions);
  LogCall call;
  call.step = 0;
  call.values["./a/."].set_number(1);
  call.values[std::string(600, 'x')].set_number(2);
  call.values["line\nbreak"].set_number(3);
  call.values["__swanlab__.x"].set_number(4);
  LogCall negative = call;
  negative.step = -1;
  const std::vector<swanlab::Point> kept = points.Of({call, negative});
  EXPECT_THAT(Text(kept), ElementsAre("a@0=1", absl::StrCat(std::string(512, 'x'), "@0=2")));
  const std::vector<std::string> lines = omissions.Take();
  EXPECT_THAT(lines, Contains(HasSubstr("is stored as a")));
  EXPECT_THAT(lines, Contains(HasSubstr("\"line\\nbreak\" is no name that swanlab takes")));
  EXPECT_THAT(lines, Contains(HasSubstr("a has a step that swanlab does not take")));
}

TEST(SwanLabPointsTest, ARowWithoutAStepComesAfterTheHighest) {
  Omissions omissions;
  swanlab::Points points(&omissions);
  points.Held("other", 5);
  LogCall call;
  call.values["a"].set_number(1);
  EXPECT_THAT(Text(points.Of({call, call})), ElementsAre("a@6=1", "a@7=1"));
}

TEST(SwanLabPointsTest, Configuration) {
  const json config = json::parse(swanlab::ConfigText(
      {{"lr", 0.1}, {"nothing", std::monostate()}, {"bad", std::nan("")}, {"n", int64_t{3}}}));
  EXPECT_EQ(config["lr"]["value"], 0.1);
  EXPECT_EQ(config["nothing"]["value"], json::object());
  EXPECT_EQ(config["bad"]["value"], "NaN");
  EXPECT_EQ(config["n"]["value"], 3);
  EXPECT_EQ(config["FRAMEWORK"]["value"], "accel");
}

TEST(CometMessagesTest, ARow) {
  Omissions omissions;
  comet::Messages messages;
  comet::AddMessages(MixedRow(), &messages, &omissions);
  std::vector<std::string> metrics;
  for (const comet::Metric& metric : messages.metrics) {
    metrics.push_back(absl::StrCat(metric.name, "@", *metric.step, "=", metric.value));
    EXPECT_EQ(metric.time_ms, 1'700'000'000'123);
  }
  // The map's own key is lost, as in Accelerate's tracker.
  EXPECT_THAT(metrics,
              ElementsAre("a/loss@3=0.5", "bad@3=nan", "big@3=-inf", "body@3=2", "head@3=1"));
  EXPECT_THAT(messages.others, ElementsAre(Pair("note", "hello"), Pair("numeric", "1.5")));
  EXPECT_THAT(omissions.Take(), IsEmpty());
}

TEST(ClearMLEventsTest, ARow) {
  Omissions omissions;
  json events = json::array();
  clearml::AddEvents(MixedRow(), "T", &events, &omissions);
  EXPECT_EQ(events, json::array({{{"timestamp", 1'700'000'000'123},
                                  {"type", "training_stats_scalar"},
                                  {"task", "T"},
                                  {"iter", 3},
                                  {"metric", "a/loss"},
                                  {"variant", "train"},
                                  {"value", 0.5}}}));
  EXPECT_THAT(omissions.Take(),
              ElementsAre(HasSubstr("bad is nan or infinite"), HasSubstr("big is nan or infinite"),
                          HasSubstr("lr has a value that is no number"),
                          HasSubstr("note has a value that is no number"),
                          HasSubstr("numeric has a value that is no number")));
}

TEST(ClearMLEventsTest, PrefixesAreSeries) {
  Omissions omissions;
  json events = json::array();
  LogCall call;
  call.step = 0;
  call.values["eval_loss"].set_number(1);
  call.values["loss"].set_number(2);
  call.values["train_loss"].set_number(3);
  clearml::AddEvents(call, "T", &events, &omissions);
  std::vector<std::string> series;
  for (const json& event : events) {
    series.push_back(absl::StrCat(event["metric"].get<std::string>(), "/",
                                  event["variant"].get<std::string>(), "=",
                                  event["value"].get<double>()));
  }
  EXPECT_THAT(series, ElementsAre("loss/eval=1", "loss/train=2", "loss/train=3"));
  EXPECT_THAT(omissions.Take(),
              ElementsAre("train_loss takes the place of loss in the series loss/train"));
}

TEST(ClearMLEventsTest, WithoutAStepASingleValue) {
  Omissions omissions;
  json events = json::array();
  LogCall call;
  call.values["eval_loss"].set_number(1);
  clearml::AddEvents(call, "T", &events, &omissions);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["metric"], "Summary");
  EXPECT_EQ(events[0]["variant"], "eval_loss");
  EXPECT_EQ(events[0]["iter"], -2147483648);
}

TEST(ClearMLEventsTest, ConfigurationIsTextWithRawLetters) {
  const json configuration = clearml::Configuration({{"name", std::string("caf\u00e9")}});
  EXPECT_EQ(configuration["General"]["value"], "{\"name\":\"caf\u00e9\"}");
}

}  // namespace
}  // namespace accel::tracking
