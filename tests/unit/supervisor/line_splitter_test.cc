#include "server/supervisor/line_splitter.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr size_t kMax = LineSplitter::kMaxLineBytes;

class LineSplitterTest : public testing::Test {
 protected:
  void Feed(absl::string_view bytes) {
    splitter_.Feed(bytes, [this](std::string text, bool truncated) {
      lines_.emplace_back(std::move(text), truncated);
    });
  }
  void Finish() {
    splitter_.Finish([this](std::string text, bool truncated) {
      lines_.emplace_back(std::move(text), truncated);
    });
  }

  LineSplitter splitter_;
  std::vector<std::pair<std::string, bool>> lines_;
};

TEST_F(LineSplitterTest, CutsAtLineEndsOfEitherKind) {
  Feed("a\nb\r\n\nc");
  EXPECT_THAT(lines_, ElementsAre(Pair("a", false), Pair("b", false), Pair("", false)));
  Feed("d\n");
  EXPECT_EQ(lines_.back().first, "cd");
  Finish();
  EXPECT_THAT(lines_, SizeIs(4));
}

TEST_F(LineSplitterTest, LastLineNeedsNoEnd) {
  Feed("last");
  EXPECT_THAT(lines_, IsEmpty());
  Finish();
  EXPECT_THAT(lines_, ElementsAre(Pair("last", false)));
}

TEST_F(LineSplitterTest, LineOfTheGreatestLengthIsWhole) {
  Feed(std::string(kMax, 'x') + "\r\n");
  EXPECT_THAT(lines_, ElementsAre(Pair(std::string(kMax, 'x'), false)));
}

TEST_F(LineSplitterTest, LongerLineIsCutAndTheNextOneIsNot) {
  Feed(std::string(kMax + 1, 'x') + "\nshort\n");
  EXPECT_THAT(lines_, ElementsAre(Pair(std::string(kMax, 'x'), true), Pair("short", false)));
}

TEST_F(LineSplitterTest, EndlessLineTakesBoundedMemory) {
  for (int i = 0; i < 1000; ++i) Feed(std::string(10000, 'x'));
  Feed("\n");
  EXPECT_THAT(lines_, ElementsAre(Pair(std::string(kMax, 'x'), true)));
}

TEST_F(LineSplitterTest, CutFallsBetweenCharacters) {
  Feed(std::string(kMax - 1, 'x') + "\xC3\xA9y\n");
  EXPECT_THAT(lines_, ElementsAre(Pair(std::string(kMax - 1, 'x'), true)));
}

TEST_F(LineSplitterTest, BytesThatAreNoUtf8AreReplaced) {
  Feed("a\xFFz\xC3\n");
  EXPECT_THAT(lines_, ElementsAre(Pair("a\xEF\xBF\xBDz\xEF\xBF\xBD", false)));
}

TEST_F(LineSplitterTest, CharacterInTwoPiecesIsWhole) {
  Feed("\xE2\x82");
  Feed("\xAC\n");
  EXPECT_THAT(lines_, ElementsAre(Pair("\xE2\x82\xAC", false)));
}

}  // namespace
}  // namespace accel::supervisor
