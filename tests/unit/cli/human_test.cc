#include "client/cli/human.h"

#include <gtest/gtest.h>

#include <limits>

#include "client/cli/table.h"

namespace accel::cli {
namespace {

TEST(HumanTest, Durations) {
  EXPECT_EQ(HumanDuration(-absl::Seconds(1)), "0.0s");
  EXPECT_EQ(HumanDuration(absl::Milliseconds(420)), "0.4s");
  EXPECT_EQ(HumanDuration(absl::Seconds(12.9)), "12s");
  EXPECT_EQ(HumanDuration(absl::Seconds(185)), "3m05s");
  EXPECT_EQ(HumanDuration(absl::Hours(2) + absl::Minutes(7)), "2h07m");
  EXPECT_EQ(HumanDuration(absl::Hours(76)), "3d04h");
}

TEST(HumanTest, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{20} << 20), "20.0 MiB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(HumanTest, Numbers) {
  EXPECT_EQ(ExactNumber(0.001), "0.001");
  EXPECT_EQ(ExactNumber(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(std::stod(ExactNumber(0.1 + 0.2)), 0.1 + 0.2);
  EXPECT_EQ(ExactNumber(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(ExactNumber(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(HumanTest, Times) {
  google::protobuf::Timestamp time;
  EXPECT_EQ(HumanTime(time, absl::UTCTimeZone()), "");
  time.set_seconds(1935489601);
  EXPECT_EQ(HumanTime(time, absl::UTCTimeZone()), "2031-05-02 12:00:01");
}

TEST(HumanTest, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(EscapeControls("plain, ünïcode 数字 🙂"), "plain, ünïcode 数字 🙂");
  EXPECT_EQ(EscapeControls("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(EscapeControls("a\tb\nc\rd\x7f"), "a\\tb\\nc\\x0dd\\x7f");
  EXPECT_EQ(EscapeControls("\xc2\x9b"
                           "31m"),
            "\\xc2\\x9b31m");
  EXPECT_EQ(EscapeControls("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(EscapeControls(absl::string_view("\0x", 2)), "\\x00x");
}

TEST(TableTest, AlignsByCharactersNotBytes) {
  Table table({"NAME", "N"});
  table.Add({"größe", "1"});
  table.Add({"a", {"22", Color::kRed}});
  table.Add({"", "3"});
  std::ostringstream out;
  table.Print(out, /*color=*/false);
  EXPECT_EQ(out.str(),
            "NAME   N\n"
            "größe  1\n"
            "a      22\n"
            "-      3\n");
}

TEST(TableTest, ColoursDoNotDisturbTheColumns) {
  Table table;
  table.Add({{"ab", Color::kGreen}, "x"});
  table.Add({"abc", "y"});
  std::ostringstream out;
  table.Print(out, /*color=*/true);
  EXPECT_EQ(out.str(), "\x1b[32mab\x1b[0m   x\nabc  y\n");
}

TEST(TableTest, EscapesNames) {
  Table table;
  table.Add({"\x1b]0;x", "v"});
  std::ostringstream out;
  table.Print(out, /*color=*/true);
  EXPECT_EQ(out.str(), "\\x1b]0;x  v\n");
}

}  // namespace
}  // namespace accel::cli
