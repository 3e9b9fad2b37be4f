#include "core/tracking/mlflow/mlflow_tracker.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/tracking/http/delivery_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_http.h"

namespace accel::tracking {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MLflowTrackerTest : public ::testing::Test {
 protected:
  MLflowTrackerTest() {
    server_.answer = [this](const HttpRequest& r) { return Answer(r); };
  }

  HttpResponse Answer(const HttpRequest& request) {
    if (absl::StrContains(request.url, "get-by-name")) {
      return FakeServer::Json(200,
                              R"({"experiment":{"experiment_id":"7","lifecycle_stage":"active"}})");
    }
    if (absl::EndsWith(request.url, "runs/search")) return FakeServer::Json(200, found_);
    if (absl::EndsWith(request.url, "runs/create")) {
      return FakeServer::Json(200, R"({"run":{"info":{"run_id":"r1"}}})");
    }
    if (!refused_.empty() && absl::StrContains(request.body, refused_)) {
      return FakeServer::Json(400, R"({"error_code":"INVALID_PARAMETER_VALUE","message":"no"})");
    }
    return FakeServer::Json(200, "{}");
  }

  std::unique_ptr<Tracker> Make(const accel::v1::MLflowTracker& spec = {},
                                std::map<std::string, std::string> variables = {},
                                std::map<std::string, std::string> secrets = {}) {
    variables.emplace("MLFLOW_TRACKING_URI", "http://mlflow:5000/");
    TrackerContext context = ContextOf(&server_);
    context.settings = TrackerSettings(std::move(variables), std::move(secrets));
    auto tracker = MLflowTracker::Make(spec, context);
    EXPECT_TRUE(tracker.ok()) << tracker.status();
    return *std::move(tracker);
  }
  std::unique_ptr<Tracker> Started() {
    auto tracker = Make();
    EXPECT_TRUE(tracker->Start(std::nullopt).ok());
    return tracker;
  }

  FakeServer server_;
  std::string found_ = "{}";
  std::string refused_;
};

TEST_F(MLflowTrackerTest, MakesItsRunOnceAndFindsItAgain) {
  auto tracker = Started();
  const json run = server_.Bodies("runs/create").at(0);
  EXPECT_EQ(run["experiment_id"], "7");
  EXPECT_EQ(run["run_name"], "job");
  EXPECT_EQ(run["start_time"], 1700000000000);
  EXPECT_THAT(run["tags"].dump(), HasSubstr(R"({"key":"accel.job_uid","value":"uid-1"})"));
  EXPECT_EQ(tracker->location(), "http://mlflow:5000/#/experiments/7/runs/r1");

  found_ = R"({"runs":[{"info":{"run_id":"r1"}}]})";
  ASSERT_TRUE(Make()->Start(int64_t{5}).ok());
  EXPECT_EQ(server_.Bodies("runs/create").size(), 1);
  EXPECT_EQ(server_.Bodies("runs/update").at(0)["status"], "RUNNING");
}

TEST_F(MLflowTrackerTest, VariablesOfTheNodeGoBeforeTheJobsOptions) {
  accel::v1::MLflowTracker spec;
  spec.set_experiment_name("job's");
  spec.set_run_id("job-run");
  (*spec.mutable_tags())["team"] = "job";
  spec.set_nested_run(true);
  spec.set_parent_run_id("parent");
  auto tracker = Make(spec, {{"MLFLOW_EXPERIMENT_NAME", "node's"},
                             {"MLFLOW_TAGS", R"({"team":"node","n":3})"},
                             {"MLFLOW_NESTED_RUN", "false"}});
  ASSERT_TRUE(tracker->Start(std::nullopt).ok());
  // A run that is given is only set to running.
  EXPECT_THAT(server_.Bodies("runs/create"), IsEmpty());
  EXPECT_EQ(server_.Bodies("runs/update").at(0)["run_id"], "job-run");

  spec.clear_run_id();
  auto own = Make(spec, {{"MLFLOW_EXPERIMENT_NAME", "node's"},
                         {"MLFLOW_TAGS", R"({"team":"node","n":3})"},
                         {"MLFLOW_NESTED_RUN", "false"}});
  ASSERT_TRUE(own->Start(std::nullopt).ok());
  const std::string tags = server_.Bodies("runs/create").at(0)["tags"].dump();
  EXPECT_THAT(tags, AllOf(HasSubstr(R"({"key":"team","value":"node"})"),
                          HasSubstr(R"({"key":"n","value":"3"})")));
  EXPECT_FALSE(absl::StrContains(tags, "parentRunId"));
  EXPECT_TRUE(absl::StrContains(server_.requests.at(1).url, "experiment_name=node%27s"));

  ASSERT_TRUE(Make(spec, {{"MLFLOW_RUN_ID", "node-run"}})->Start(std::nullopt).ok());
  EXPECT_EQ(server_.Bodies("runs/update").back()["run_id"], "node-run");
}

TEST_F(MLflowTrackerTest, NumbersWordsMapsAndOddKeys) {
  auto tracker = Started();
  LogCall call = Row(3, 2, "nan", std::nan(""));
  call.values["up"].set_number(std::numeric_limits<double>::infinity());
  call.values["tenth"].set_number(0.1);
  call.values["note"].set_text("words");
  (*call.values["map"].mutable_map()->mutable_values())["a"] = 1;
  call.values["/p//q\n#..\xff"].set_number(4);
  ASSERT_TRUE(tracker->Log({call}).ok());
  std::map<std::string, json> metrics;
  const json batch = server_.Bodies("log-batch").at(0);
  for (const json& metric : batch["metrics"]) {
    EXPECT_EQ(metric["step"], 2);
    EXPECT_EQ(metric["timestamp"], 1700000103000);
    metrics[metric["key"]] = metric["value"];
  }
  const std::map<std::string, json> expected = {{"nan", "NaN"},
                                                {"up", "Infinity"},
                                                {"tenth", 0.1},
                                                {"map/a", 1.0},
                                                {"_p/q____\xef\xbf\xbd", 4.0}};
  EXPECT_EQ(metrics, expected);
  EXPECT_THAT(
      tracker->TakeWarnings(),
      ::testing::UnorderedElementsAre(HasSubstr("is no key that mlflow takes"),
                                      HasSubstr("note is a text"), HasSubstr("up is infinite")));
  // Said once.
  ASSERT_TRUE(tracker->Log({call}).ok());
  EXPECT_THAT(tracker->TakeWarnings(), IsEmpty());
}

TEST_F(MLflowTrackerTest, ParamsAreTextsInBatchesAndLongOnesAreLeftOut) {
  auto tracker = Started();
  ConfigMap config = {{"none", std::monostate()},
                      {"yes", true},
                      {"small", 1e-5},
                      {"whole", 2.0},
                      {"count", int64_t{3}},
                      {"long", std::string(6001, 'x')}};
  for (int i = 0; i < 100; ++i) config[absl::StrCat("k", i)] = int64_t{i};
  ASSERT_TRUE(tracker->StoreInitConfiguration(config).ok());
  const std::vector<json> batches = server_.Bodies("log-batch");
  ASSERT_EQ(batches.size(), 2);
  EXPECT_EQ(batches[0]["params"].size(), 100);
  EXPECT_EQ(batches[1]["params"].size(), 5);
  const std::string all = batches[0].dump() + batches[1].dump();
  for (const char* const param :
       {R"("none","value":"None")", R"("yes","value":"True")", R"("small","value":"1e-05")",
        R"("whole","value":"2.0")", R"("count","value":"3")"}) {
    EXPECT_THAT(all, HasSubstr(param));
  }
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("long has 6001 bytes")));
}

TEST_F(MLflowTrackerTest, ARefusedBatchLosesOnlyWhatIsWrongInIt) {
  auto tracker = Started();
  refused_ = "bad";
  std::vector<LogCall> calls;
  for (int i = 0; i < 9; ++i) calls.push_back(Row(i + 1, i, i == 4 ? "bad" : "good", i));
  ASSERT_TRUE(tracker->Log(calls).ok());
  std::vector<double> stored;
  for (const json& batch : server_.Bodies("log-batch")) {
    if (absl::StrContains(batch.dump(), "bad")) continue;
    for (const json& metric : batch["metrics"]) stored.push_back(metric["step"]);
  }
  EXPECT_THAT(stored, ElementsAre(0, 1, 2, 3, 5, 6, 7, 8));
  EXPECT_THAT(tracker->TakeWarnings(), ElementsAre(HasSubstr("mlflow refused bad")));
}

TEST_F(MLflowTrackerTest, WhatRepeatingCannotMendIsPermanent) {
  auto tracker = Started();
  server_.answer = [](const HttpRequest&) {
    return FakeServer::Json(400, "the run must be in the 'active' state");
  };
  EXPECT_TRUE(IsPermanent(tracker->Log({Row(1, 1, "a", 1)})));
  server_.answer = [](const HttpRequest&) { return FakeServer::Json(401, "who"); };
  EXPECT_TRUE(IsPermanent(tracker->Log({Row(1, 1, "a", 1)})));
  server_.answer = [](const HttpRequest&) { return FakeServer::Json(503, ""); };
  EXPECT_FALSE(IsPermanent(tracker->Log({Row(1, 1, "a", 1)})));
  server_.answer = [](const HttpRequest&) {
    return FakeServer::Json(200,
                            R"({"experiment":{"experiment_id":"7","lifecycle_stage":"deleted"}})");
  };
  const absl::Status deleted = Make()->Start(std::nullopt);
  EXPECT_TRUE(IsPermanent(deleted));
  EXPECT_THAT(std::string(deleted.message()), HasSubstr("was deleted on the server"));
}

TEST_F(MLflowTrackerTest, TheUsersPasswordGoesBeforeTheToken) {
  ASSERT_TRUE(Make({}, {}, {{"MLFLOW_TRACKING_TOKEN", "tok"}})->Start(std::nullopt).ok());
  EXPECT_THAT(server_.requests.at(0).headers, ::testing::Contains("Authorization: Bearer tok"));
  server_.requests.clear();
  ASSERT_TRUE(Make({}, {{"MLFLOW_TRACKING_USERNAME", "u"}, {"MLFLOW_WORKSPACE", "w"}},
                   {{"MLFLOW_TRACKING_TOKEN", "tok"}, {"MLFLOW_TRACKING_PASSWORD", "p"}})
                  ->Start(std::nullopt)
                  .ok());
  EXPECT_THAT(server_.requests.at(0).headers,
              AllOf(::testing::Contains("Authorization: Basic dTpw"),
                    ::testing::Contains("X-MLFLOW-WORKSPACE: w")));
}

TEST_F(MLflowTrackerTest, TheRunEndsAsTheJobDid) {
  auto tracker = Started();
  ASSERT_TRUE(tracker->Finish(RunOutcome::kCancelled).ok());
  EXPECT_EQ(server_.Bodies("runs/update").back()["status"], "KILLED");
}

}  // namespace
}  // namespace accel::tracking
