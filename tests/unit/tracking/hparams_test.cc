#include "core/tracking/hparams.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::tensorboard::HParamsData;
using accel::internal::v1::tensorboard::SessionEnd;

HParamsData DataOf(const accel::internal::v1::tensorboard::Event& event, absl::string_view tag) {
  EXPECT_EQ(event.summary().value_size(), 1);
  EXPECT_EQ(event.summary().value(0).tag(), tag);
  const auto& plugin_data = event.summary().value(0).metadata().plugin_data();
  EXPECT_EQ(plugin_data.plugin_name(), "hparams");
  HParamsData data;
  EXPECT_TRUE(data.ParseFromString(plugin_data.content()));
  return data;
}

TEST(HParamsTest, StartKeepsTypes) {
  const ConfigMap values = {{"bool", true},      {"int", int64_t{7}}, {"float", 0.25},
                            {"text", "adamw"},   {"none", {}},        {"nan", std::nan("")},
                            {"bad\xff", "x\xfe"}};
  const HParamsData data =
      DataOf(SessionStartEvent(values, absl::FromUnixMillis(1500)), "_hparams_/session_start_info");
  EXPECT_EQ(data.session_start_info().start_time_secs(), 1.5);
  const auto& hparams = data.session_start_info().hparams();
  EXPECT_EQ(hparams.size(), 6u);
  EXPECT_EQ(hparams.at("bool").bool_value(), true);
  EXPECT_EQ(hparams.at("int").number_value(), 7);
  EXPECT_EQ(hparams.at("float").number_value(), 0.25);
  EXPECT_EQ(hparams.at("text").string_value(), "adamw");
  EXPECT_EQ(hparams.at("nan").string_value(), "nan");
  EXPECT_EQ(hparams.at("bad\uFFFD").string_value(), "x\uFFFD");
}

TEST(HParamsTest, EndTellsTheOutcome) {
  auto status = [](RunOutcome outcome) {
    return DataOf(SessionEndEvent(outcome, absl::FromUnixSeconds(9)), "_hparams_/session_end_info")
        .session_end_info()
        .status();
  };
  EXPECT_EQ(status(RunOutcome::kSucceeded), SessionEnd::SUCCESS);
  EXPECT_EQ(status(RunOutcome::kFailed), SessionEnd::FAILURE);
  EXPECT_EQ(status(RunOutcome::kCancelled), SessionEnd::FAILURE);
}

TEST(HParamsTest, YamlIsSortedAndTyped) {
  const ConfigMap values = {{"optimizer.lr", 1e-5},
                            {"epochs", int64_t{3}},
                            {"amp", false},
                            {"name", "true"},
                            {"empty", ""},
                            {"none", {}},
                            {"large", 1e22},
                            {"whole", 2.0},
                            {"text", "two\nlines: \"x\""},
                            {"no", int64_t{1}},
                            {"with space", 0.1},
                            {"huge", std::numeric_limits<double>::infinity()},
                            {"small", -std::numeric_limits<double>::infinity()},
                            {"not", std::nan("")}};
  EXPECT_EQ(HParamsYaml(values),
            "amp: false\n"
            "empty: \"\"\n"
            "epochs: 3\n"
            "huge: .inf\n"
            "large: 1.0e+22\n"
            "name: \"true\"\n"
            "\"no\": 1\n"
            "none: null\n"
            "not: .nan\n"
            "optimizer.lr: 1.0e-05\n"
            "small: -.inf\n"
            "text: \"two\\nlines: \\\"x\\\"\"\n"
            "whole: 2.0\n"
            "\"with space\": 0.1\n");
  const YAML::Node read = YAML::Load(HParamsYaml(values));
  EXPECT_EQ(read["text"].as<std::string>(), "two\nlines: \"x\"");
  EXPECT_EQ(read["optimizer.lr"].as<double>(), 1e-5);
  EXPECT_TRUE(std::isnan(read["not"].as<double>()));
}

TEST(HParamsTest, NoValuesIsAnEmptyMap) {
  EXPECT_TRUE(YAML::Load(HParamsYaml({})).IsMap());
  EXPECT_TRUE(DataOf(SessionStartEvent({}, absl::UnixEpoch()), "_hparams_/session_start_info")
                  .has_session_start_info());
}

}  // namespace
}  // namespace accel::tracking
