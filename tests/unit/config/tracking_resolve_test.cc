#include "core/config/tracking_resolve.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using accel::v1::TrackerSpec;
using accel::v1::TrackingSpec;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

class TrackingResolveTest : public ::testing::Test {
 protected:
  ResolvedTracking Resolve(const char* text) {
    return ResolveTracking(Parse<TrackingSpec>(text), node_, "tracking", &violations_);
  }
  // Names of what is left of a text without violations.
  std::vector<std::string> Names(const char* text) {
    const ResolvedTracking resolved = Resolve(text);
    EXPECT_THAT(ViolationsOf(violations_), IsEmpty());
    warnings_ = resolved.warnings;
    EXPECT_EQ(resolved.tracking.log_with_size(), 0);
    std::vector<std::string> names;
    for (const TrackerSpec& spec : resolved.tracking.trackers()) {
      names.push_back(
          spec.has_custom()
              ? spec.custom().name()
              : TrackerSpec::descriptor()->FindFieldByNumber(spec.tracker_case())->name());
    }
    return names;
  }

  TrackerNode node_;
  FieldViolations violations_;
  std::vector<std::string> warnings_;
};

TEST_F(TrackingResolveTest, AllIsWhatTheNodeCanServeInAcceleratesOrder) {
  node_.custom = {"mine"};
  EXPECT_THAT(Names("{log_with: [all]}"),
              AllOf(Contains("tensorboard"), Contains("trackio"), Not(Contains("wandb")),
                    Not(Contains("mlflow")), Not(Contains("mine"))));
  EXPECT_THAT(warnings_, Contains("tracking.log_with[0]: wandb is left out: the node has no secret "
                                  "WANDB_API_KEY"));
  EXPECT_THAT(warnings_, Contains(HasSubstr("mlflow is left out: it needs the http or https")));
  node_.secret_names = {"WANDB_API_KEY"};
  node_.environment = {{"MLFLOW_TRACKING_URI", "http://mlflow"}};
  const std::vector<std::string> names = Names("{log_with: [all, mine, tensorboard]}");
  EXPECT_EQ(names.front(), "tensorboard");
  EXPECT_EQ(names.at(1), "wandb");
  EXPECT_EQ(names.back(), "mine");
  EXPECT_THAT(names, AllOf(Contains("mlflow"), Contains("trackio")));
}

TEST_F(TrackingResolveTest, OptionsWinOverANameAndRepeatsCountOnce) {
  const ResolvedTracking resolved = Resolve(
      "{trackers: [{wandb: {mode: offline, name: n}}], log_with: [wandb, trackio, trackio]}");
  EXPECT_THAT(ViolationsOf(violations_), IsEmpty());
  ASSERT_THAT(resolved.tracking.trackers(), SizeIs(2));
  EXPECT_EQ(resolved.tracking.trackers(0).wandb().name(), "n");
}

TEST_F(TrackingResolveTest, UnknownNamesAreRefusedWithTheList) {
  node_.custom = {"mine"};
  Resolve("{log_with: [tensorboard, excel]}");
  EXPECT_THAT(
      ViolationsOf(violations_),
      ElementsAre(Pair("tracking.log_with[1]",
                       HasSubstr("\"excel\" is not allowed; allowed: all, tensorboard, wandb, "
                                 "comet_ml, aim, mlflow, clearml, dvclive, swanlab, trackio, "
                                 "mine"))));
}

TEST_F(TrackingResolveTest, WhatCannotBeServedIsAWarningByNameAndARefusalWithOptions) {
  EXPECT_THAT(Names("{log_with: [mlflow]}"), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("mlflow is left out"),
                                     "tracking: no tracker is left, nothing is sent to any"));
  Resolve("{trackers: [{mlflow: {}}, {wandb: {api_key_secret: K}}, {custom: {name: x}}]}");
  EXPECT_THAT(ViolationsOf(violations_),
              ElementsAre(Pair("tracking.trackers[0].mlflow", HasSubstr("is not available")),
                          Pair("tracking.trackers[1].wandb", HasSubstr("has no secret K")),
                          Pair("tracking.trackers[2].custom", HasSubstr("no tracker \"x\""))));
}

TEST_F(TrackingResolveTest, SecretsGoOnlyWhereTheOperatorLetsThemGo) {
  node_.secret_names = {"WANDB_API_KEY", "MLFLOW_TRACKING_TOKEN"};
  node_.environment = {{"WANDB_BASE_URL", "http://own/"}};
  node_.urls = {"http://allowed"};
  EXPECT_THAT(Names("{trackers: [{wandb: {base_url: http://own}}]}"), SizeIs(1));
  EXPECT_THAT(Names("{trackers: [{wandb: {base_url: http://allowed/}}]}"), SizeIs(1));
  EXPECT_THAT(Names("{trackers: [{wandb: {base_url: https://api.wandb.ai}}]}"), SizeIs(1));
  // No secret would go there.
  EXPECT_THAT(Names("{trackers: [{trackio: {server_url: http://anywhere}}]}"), SizeIs(1));
  Resolve(
      "{trackers: [{wandb: {base_url: http://other}}, {mlflow: {tracking_uri: http://other}}]}");
  EXPECT_THAT(ViolationsOf(violations_),
              ElementsAre(Pair("tracking.trackers[0].wandb.base_url",
                               HasSubstr("the node does not send its secret WANDB_API_KEY there")),
                          Pair("tracking.trackers[1].mlflow.tracking_uri",
                               HasSubstr("its secret MLFLOW_TRACKING_TOKEN there"))));
}

TEST_F(TrackingResolveTest, ANodeThatNestsRunsNeedsTheParent) {
  node_.environment = {{"MLFLOW_TRACKING_URI", "http://mlflow"}, {"MLFLOW_NESTED_RUN", "true"}};
  EXPECT_THAT(Names("{trackers: [{mlflow: {nested_run: true, parent_run_id: p}}]}"), SizeIs(1));
  Resolve("{trackers: [{mlflow: {}}]}");
  EXPECT_THAT(ViolationsOf(violations_),
              ElementsAre(Pair("tracking.trackers[0].mlflow", HasSubstr("MLFLOW_NESTED_RUN"))));
}

TEST(CheckCustomTrackerNameTest, NamesThatAreTakenOrNone) {
  EXPECT_TRUE(CheckCustomTrackerName("lines-2_x").ok());
  for (const char* const name : {"", "a b", "../x", "all", "wandb", "wandb_archive"}) {
    EXPECT_FALSE(CheckCustomTrackerName(name).ok()) << name;
  }
}

TEST(CheckTrackerVariableTest, ValuesThatATrackerWouldRefuse) {
  EXPECT_TRUE(CheckTrackerVariable("WANDB_MODE", "offline").ok());
  EXPECT_TRUE(CheckTrackerVariable("MLFLOW_TAGS", "{\"a\": 1}").ok());
  for (const auto& [name, value] :
       {std::pair("WANDB_MODE", "shared"), std::pair("MLFLOW_NESTED_RUN", "perhaps"),
        std::pair("MLFLOW_TAGS", "[1]"), std::pair("MLFLOW_TRACKING_URI", "file:///x"),
        std::pair("WANDB_API_KEY", "key"), std::pair("WANDB_DIR", "/x")}) {
    EXPECT_FALSE(CheckTrackerVariable(name, value).ok()) << name;
  }
}

}  // namespace
}  // namespace accel::config
