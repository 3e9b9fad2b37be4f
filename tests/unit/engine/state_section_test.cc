#include "core/engine/checkpoint/state_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StateSectionTest : public DataFilesTest {
 protected:
  StateSectionTest() {
    section_.name = "extra";
    section_.save = [this]() -> absl::StatusOr<SectionState> { return saved_; };
    section_.restore = [this](const SectionState& state) {
      restored_.push_back(state);
      return state.values.at("allowed").get<bool>() ? absl::OkStatus()
                                                    : absl::FailedPreconditionError("no");
    };
    saved_.values = {{"allowed", true}, {"count", 7}};
  }

  absl::Status RoundTrip(int rank) {
    const absl::Status written = WriteSection(folder_, rank, section_);
    return written.ok() ? RestoreSection(folder_, rank, section_) : written;
  }

  StateSection section_;
  SectionState saved_;
  std::vector<SectionState> restored_;
};

TEST_F(StateSectionTest, ValuesAndTensorsComeBack) {
  saved_.tensors = {{"x", torch::arange(3)}};
  ASSERT_TRUE(RoundTrip(0).ok());
  ASSERT_EQ(restored_.size(), 1);
  EXPECT_EQ(restored_[0].values, saved_.values);
  ASSERT_EQ(restored_[0].tensors.size(), 1);
  EXPECT_TRUE(torch::equal(restored_[0].tensors[0].second, torch::arange(3)));
  EXPECT_TRUE(fs::exists(folder_ / "extra.json"));
  EXPECT_TRUE(fs::exists(folder_ / "extra.safetensors"));
}

TEST_F(StateSectionTest, WhatIsEmptyHasNoFile) {
  ASSERT_TRUE(RoundTrip(0).ok());
  EXPECT_FALSE(fs::exists(folder_ / "extra.safetensors"));
  EXPECT_TRUE(restored_[0].tensors.empty());
}

TEST_F(StateSectionTest, EachRankMayHaveItsOwn) {
  section_.per_rank = true;
  ASSERT_TRUE(RoundTrip(1).ok());
  EXPECT_TRUE(fs::exists(folder_ / "extra_1.json"));
  ASSERT_TRUE(RestoreSection(folder_, 0, section_).ok());
  EXPECT_EQ(restored_.size(), 1) << "rank 0 has no files";
}

TEST_F(StateSectionTest, WithoutFilesNothingIsRestored) {
  ASSERT_TRUE(RestoreSection(folder_, 0, section_).ok());
  EXPECT_TRUE(restored_.empty());
}

TEST_F(StateSectionTest, RefusalsAndNonsenseAreErrors) {
  saved_.values["allowed"] = false;
  EXPECT_EQ(RoundTrip(0).code(), absl::StatusCode::kFailedPrecondition);
  fs::remove(folder_ / "extra.json");
  saved_.values = {{"allowed", "perhaps"}};
  const absl::Status status = RoundTrip(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("extra.json"));
  Write("extra.json", "{\"allowed\": ");
  EXPECT_EQ(RestoreSection(folder_, 0, section_).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace accel::engine
