
#include "absl/strings/match.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/http/json_exchange.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker_settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_http.h"

namespace accel::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HttpStatusTest, TellsWhatPassesFromWhatDoesNot) {
  EXPECT_TRUE(HttpStatus("x", {204, {}, ""}).ok());
  for (const int code : {408, 425, 429, 500, 502, 503, 504}) {
    const absl::Status status = HttpStatus("x", {code, {}, ""});
    EXPECT_TRUE(absl::IsUnavailable(status)) << code;
    EXPECT_FALSE(IsPermanent(status)) << code;
  }
  EXPECT_TRUE(IsPermanent(HttpStatus("x", {401, {}, ""})));
  EXPECT_TRUE(IsPermanent(HttpStatus("x", {403, {}, ""})));
  for (const int code : {302, 400, 404, 413}) {
    EXPECT_TRUE(absl::IsInvalidArgument(HttpStatus("x", {code, {}, ""}))) << code;
  }
  const absl::Status shown =
      HttpStatus("POST /a", {500, {}, "one\ntwo\xff" + std::string(999, 'z')});
  EXPECT_THAT(std::string(shown.message()), HasSubstr("POST /a was answered with 500: one two"));
  EXPECT_LT(shown.message().size(), 400);
}

TEST(HttpStatusTest, TheServersWishIsTakenWithinReason) {
  const auto wish = [](const char* text) {
    return RetryAfter(HttpStatus("x", {429, {{"retry-after", text}}, ""}));
  };
  EXPECT_EQ(wish("1.5"), absl::Milliseconds(1500));
  EXPECT_EQ(wish("1e9"), absl::Minutes(10));
  EXPECT_EQ(wish("Wed, 21 Oct 2026 07:28:00 GMT"), std::nullopt);
  EXPECT_EQ(wish("-3"), std::nullopt);
}

TEST(JsonApiTest, AnswersThatAreNoJsonComeAgain) {
  FakeServer server;
  JsonApi api(std::make_unique<FakeClient>(&server), "http://host/base/", {"A: b"});
  ASSERT_TRUE(api.Post("/x", {{"text", "a\xff"}}).ok());
  EXPECT_EQ(server.requests[0].url, "http://host/base/x");
  EXPECT_EQ(server.requests[0].body, "{\"text\":\"a\xef\xbf\xbd\"}");
  EXPECT_THAT(server.requests[0].headers, ElementsAre("A: b", "Content-Type: application/json"));
  server.answer = [](const HttpRequest&) { return FakeServer::Json(200, "<html>"); };
  EXPECT_TRUE(absl::IsUnavailable(api.Get("/x?secret=1").status()));
  EXPECT_FALSE(absl::StrContains(api.Get("/x?secret=1").status().message(), "secret"));
}

TEST(SendSplittingTest, ARowThatIsRefusedDoesNotHoldUpTheOthers) {
  std::vector<size_t> dropped;
  std::vector<size_t> accepted;
  size_t sent = 0;
  const auto send = [&](size_t first, size_t last) -> absl::Status {
    if (first <= 5 && 5 < last) return absl::InvalidArgumentError("5");
    for (size_t i = first; i < last; ++i) accepted.push_back(i);
    return absl::OkStatus();
  };
  const auto drop = [&](size_t i, const absl::Status&) { dropped.push_back(i); };
  ASSERT_TRUE(SendSplitting(8, send, drop, [&](size_t last) { sent = last; }).ok());
  EXPECT_THAT(accepted, ElementsAre(0, 1, 2, 3, 4, 6, 7));
  EXPECT_THAT(dropped, ElementsAre(5));
  EXPECT_EQ(sent, 8);
  const auto refuse = [](size_t, size_t) { return absl::InvalidArgumentError("all"); };
  EXPECT_TRUE(IsPermanent(SendSplitting(100, refuse, drop, [](size_t) {})));
}

TEST(TrackerSettingsTest, JobThenNodeThenDefaultOrTheOtherWayRound) {
  const TrackerSettings settings({{"A", "node"}, {"EMPTY", ""}}, {});
  EXPECT_EQ(settings.Choose("job", "A", "default"), "job");
  EXPECT_EQ(settings.Choose("", "A", "default"), "node");
  EXPECT_EQ(settings.Choose("", "EMPTY", "default"), "default");
  EXPECT_EQ(settings.ChooseVariable("A", "job"), "node");
  EXPECT_EQ(settings.ChooseVariable("EMPTY", "job"), "job");
  // Never the process's own.
  setenv("ACCEL_TEST_VARIABLE", "process", 1);
  EXPECT_EQ(settings.Choose("", "ACCEL_TEST_VARIABLE", "default"), "default");
}

TEST(TrackerSettingsTest, SecretsAreTakenOutOfTexts) {
  const TrackerSettings settings({}, {{"KEY", "s3cr3t"}, {"SHORT", "abc"}});
  EXPECT_EQ(settings.Redact("Bearer s3cr3t, again s3cr3t; abc"), "Bearer <KEY>, again <KEY>; abc");
  EXPECT_TRUE(settings.RequireSecret("KEY").ok());
  const absl::Status missing = settings.RequireSecret("OTHER").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing));
  EXPECT_TRUE(IsPermanent(missing));
}

TEST(OmissionsTest, ToldOnceAndCounted) {
  Omissions omissions;
  for (int i = 0; i < 3; ++i) omissions.Note("a", "is left out");
  omissions.Note("b", "is left out");
  EXPECT_THAT(omissions.Take(), ElementsAre("a is left out", "b is left out"));
  omissions.SayTotals();
  EXPECT_THAT(omissions.Take(), ElementsAre("3 times: a is left out"));
}

}  // namespace
}  // namespace accel::tracking
