#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "core/tracking/aim/aim_tracker.h"
#include "core/tracking/aim/sequences.h"
#include "core/tracking/aim/tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::tracking::aim {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Hex(const json& value) { return absl::BytesToHexString(EncodeTree(value)); }

// Bytes that Aim 3.29's own encoder gives.
TEST(TreeTest, ThePackagesBytes) {
  EXPECT_EQ(Hex(json::object()), "00000000000100000007");
  EXPECT_EQ(Hex({{"a", {{"b", 1}}}}), "0400000061fe62fe0009000000020100000000000000");
  EXPECT_EQ(Hex(json::array()), "00000000000100000006");
}

TEST(TreeTest, EveryKindReadsBack) {
  const json value = {{"text", "caf\u00e9"},
                      {"yes", true},
                      {"nothing", nullptr},
                      {"number", -1.5e-300},
                      {"integer", -7},
                      {"empty", json::object()},
                      {"list", {1, "two", {3.0}}},
                      {"deep", {{"er", {{"x", 1}}}}}};
  const auto read = DecodeTree(EncodeTree(value));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, value);
}

TEST(TreeTest, NumbersThatAreNotFiniteStay) {
  EXPECT_TRUE(std::isnan(DecodeTree(EncodeTree(std::nan("")))->get<double>()));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(DecodeTree(EncodeTree(-infinity))->get<double>(), -infinity);
}

TEST(TreeTest, IntegerKeysBecomeDigits) {
  // {"c": {-5: 1}} as the package writes it.
  const std::string key =
      absl::StrCat("c\xFE\xFE", absl::HexStringToBytes("fffffffffffffffb"), "\xFE");
  std::string one =
      absl::StrCat(std::string("\x0c\0\0\0", 4), key, std::string("\0", 1),
                   std::string("\x09\0\0\0", 4), absl::HexStringToBytes("020100000000000000"));
  const auto read = DecodeTree(one);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, json({{"c", {{"-5", 1}}}}));
}

TEST(TreeTest, DamageIsSeen) {
  const std::string whole = EncodeTree({{"a", {1, 2}}, {"b", "text"}});
  int damaged = 0;
  for (size_t size = 1; size < whole.size(); ++size)
    damaged += !DecodeTree(whole.substr(0, size)).ok();
  // All but those that end with a whole leaf.
  EXPECT_EQ(damaged, static_cast<int>(whole.size()) - 1 - 3);
}

// Values of Aim 3.29's hash.
TEST(StepKeyTest, ThePackagesHash) {
  EXPECT_EQ(StepKey(0), 487590686800389010);
  EXPECT_EQ(StepKey(1), 6813614137041369426);
  EXPECT_EQ(StepKey(2), -901861262945818715);
}

TEST(ServerTest, AddressesOfARepository) {
  EXPECT_EQ(ServerOf("aim://host:53800"), "http://host:53800");
  EXPECT_EQ(ServerOf("aim://host:1/base/"), "http://host:1/base");
  EXPECT_EQ(ServerOf("https://host/aim"), "https://host/aim");
  EXPECT_EQ(ServerOf("/a/folder"), "");
}

LogCall Row(int64_t step, const std::string& key, double number) {
  LogCall call;
  call.step = step;
  call.values[key].set_number(number);
  return call;
}

// The last part of the path and the value of each instruction of the meta tree.
std::vector<std::string> MetaWrites(const json& instructions) {
  std::vector<std::string> writes;
  for (const json& one : instructions) {
    if (one[0] != "M" || one[1] != "__setitem__") continue;
    writes.push_back(absl::StrCat(one[2][0].back().dump(), "=", one[2][1].dump()));
  }
  return writes;
}

TEST(SequencesTest, APointOverwritesAndTheEndsStay) {
  Omissions omissions;
  Sequences sequences("R", "M", "S", &omissions);
  sequences.Learn(
      {{"-4504863053055089774",
        {{"loss",
          {{"dtype", "float"}, {"version", 2}, {"last_step", 5}, {"min", 1.0}, {"max", 4.0}}}}}});
  json again = json::array();
  sequences.Add(Row(5, "loss", 2.0), &again);
  EXPECT_THAT(MetaWrites(again), ElementsAre());
  EXPECT_EQ(again.size(), 4u);
  json later = json::array();
  sequences.Add(Row(6, "loss", 0.5), &later);
  EXPECT_THAT(MetaWrites(later), ElementsAre("\"last\"=0.5", "\"last_step\"=6", "\"min\"=0.5"));
}

TEST(SequencesTest, NaNSetsNeitherEnd) {
  Omissions omissions;
  Sequences sequences("R", "M", "S", &omissions);
  json first = json::array();
  sequences.Add(Row(0, "loss", std::nan("")), &first);
  for (const std::string& write : MetaWrites(first)) {
    EXPECT_THAT(write, Not(HasSubstr("min")));
    EXPECT_THAT(write, Not(HasSubstr("max")));
  }
}

TEST(SequencesTest, WhatAimCannotHoldIsSaid) {
  Omissions omissions;
  Sequences sequences("R", "M", "S", &omissions);
  LogCall call = Row(-1, "loss", 1.0);
  call.values["note"].set_text("hello");
  json instructions = json::array();
  sequences.Add(call, &instructions);
  EXPECT_TRUE(instructions.empty());
  EXPECT_THAT(omissions.Take(), ElementsAre(HasSubstr("loss has a step"),
                                            HasSubstr("note has a value that is no number")));
}

}  // namespace
}  // namespace accel::tracking::aim
