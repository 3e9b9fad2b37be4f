#include "core/base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace accel {
namespace {

TEST(Utf8Test, KeepsWellFormedText) {
  for (const std::string text : {"", "plain", "zwölf", "\u20ac", "\U0001F600", "\U0010FFFF"}) {
    EXPECT_EQ(RepairUtf8(text), text);
  }
}

TEST(Utf8Test, ReplacesEachBadByte) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(RepairUtf8("a\xff"
                       "b"),
            "a" + r + "b");
  EXPECT_EQ(RepairUtf8("\xc3"), r);
  EXPECT_EQ(RepairUtf8("\xc0\xaf"), r + r);          // Overlong.
  EXPECT_EQ(RepairUtf8("\xe0\x80\xaf"), r + r + r);  // Overlong.
  EXPECT_EQ(RepairUtf8("\xed\xa0\x80"), r + r + r);  // A surrogate.
  EXPECT_EQ(RepairUtf8("\xf4\x90\x80\x80"), r + r + r + r);
  EXPECT_EQ(RepairUtf8("\xe2\x82x"), r + r + "x");
}

TEST(Utf8Test, CutsBetweenCharacters) {
  EXPECT_EQ(CutUtf8("abc", 5), "abc");
  EXPECT_EQ(CutUtf8("abc", 2), "ab");
  EXPECT_EQ(CutUtf8("a\u20ac", 3), "a");
  EXPECT_EQ(CutUtf8("a\u20ac"
                    "b",
                    4),
            "a\u20ac");
  EXPECT_EQ(CutUtf8("\u20ac", 2), "");
}

}  // namespace
}  // namespace accel
