#include "core/engine/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status_macros.h"
#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

using testing::ElementsAre;

class CsvTest : public DataFilesTest {
 protected:
  absl::StatusOr<CsvTable> Read(const std::string& name, const accel::v1::CsvFormat& format = {},
                                bool integral_targets = false) {
    ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, OpenByteSource(name, roots_));
    return ReadCsv(*source, format, integral_targets);
  }

  absl::Status ReadText(absl::string_view text, bool integral_targets = false) {
    return Read(Write("t.csv", text), {}, integral_targets).status();
  }
};

TEST_F(CsvTest, LastColumnIsTheTarget) {
  const auto table = Read(Write("t.csv", "1,2.5,7\n-3e2, +4 ,8\n"));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->columns, 2);
  EXPECT_THAT(table->features, ElementsAre(1, 2.5, -300, 4));
  EXPECT_THAT(table->targets, ElementsAre(7, 8));
}

TEST_F(CsvTest, TakesHeaderDelimiterTargetColumnCrlfAndEmptyLines) {
  accel::v1::CsvFormat format;
  format.set_header(true);
  format.set_delimiter(";");
  format.set_target_column(0);
  const auto table = Read(Write("t.csv", "\r\ny;a;b\r\n\r\n1;2;3\r\n  \n4;5;6"), format);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(table->targets, ElementsAre(1, 4));
}

TEST_F(CsvTest, NegativeTargetColumnCountsFromTheLast) {
  accel::v1::CsvFormat format;
  format.set_target_column(-3);
  const auto table = Read(Write("t.csv", "1,2,3\n"), format);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->targets, ElementsAre(1));
  format.set_target_column(-4);
  ExpectMalformed(Read(Write("t.csv", "1,2,3\n"), format).status(), "target_column is -4");
}

TEST_F(CsvTest, NumbersBelowTheSmallestDoubleAreZero) {
  const auto table = Read(Write("t.csv", "1e-400,4.9e-324,1\n"));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(0, 0));
}

TEST_F(CsvTest, LinesSpanReads) {
  std::string text;
  double sum = 0;
  for (int i = 0; i < 300000; ++i) {
    text += std::to_string(i) + ",0.5," + std::to_string(i % 7) + "\n";
    sum += i;
  }
  ASSERT_GT(text.size(), size_t{2} << 20);
  const auto table = Read(Write("t.csv", text));
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->targets.size(), 300000u);
  double read = 0;
  for (size_t i = 0; i < table->features.size(); i += 2) read += table->features[i];
  EXPECT_EQ(read, sum);
}

TEST_F(CsvTest, ReadsGzipMembersOneAfterTheOther) {
  const auto table = Read(Write("t.csv.gz", Gzip("1,2\n3,") + Gzip("4\n5,6\n")));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features, ElementsAre(1, 3, 5));
  EXPECT_THAT(table->targets, ElementsAre(2, 4, 6));
}

TEST_F(CsvTest, RefusesBadGzip) {
  std::string text;
  for (int i = 0; i < 10000; ++i) text += std::to_string(i * i) + "," + std::to_string(i) + "\n";
  std::string packed = Gzip(text);
  ExpectMalformed(Read(Write("cut.csv.gz", packed.substr(0, packed.size() / 2))).status(),
                  "bad gzip data: ends early");
  ExpectMalformed(Read(Write("tail.csv.gz", packed.substr(0, packed.size() - 4))).status(),
                  "bad gzip data: ends early");
  packed[packed.size() / 2] ^= 0x55;
  ExpectMalformed(Read(Write("flip.csv.gz", packed)).status(), "bad gzip data");
  ExpectMalformed(Read(Write("plain.csv.gz", "1,2\n")).status(), "is not gzip-compressed");
}

TEST_F(CsvTest, NamesRowAndColumnOfABadValue) {
  ExpectMalformed(ReadText("1,2,3\n\n4,x,6\n"),
                  "data/t.csv: row 3 column 2: \"x\" is no finite number");
  ExpectMalformed(ReadText("1,,3\n"), "row 1 column 2: \"\" is no finite number");
  ExpectMalformed(ReadText("1,2,nan\n"), "row 1 column 3: \"nan\" is no finite number");
  ExpectMalformed(ReadText("-inf,2,3\n"), "row 1 column 1: \"-inf\" is no finite number");
  ExpectMalformed(ReadText("1e400,2,3\n"), "row 1 column 1: \"1e400\" is no finite number");
  ExpectMalformed(ReadText("1e39,2,3\n"), "row 1 column 1: \"1e39\" is outside the range of fp32");
  ExpectMalformed(ReadText("0x10,2,3\n"), "row 1 column 1");
  ExpectMalformed(ReadText("1 2,2,3\n"), "row 1 column 1");
  ExpectMalformed(ReadText("\"1\",2,3\n"), "row 1 column 1: \"\\\"1\\\"\" is quoted");
  ExpectMalformed(ReadText(absl::string_view("1,\0,3\n", 6)), "row 1 column 2: \"\\x00\"");
}

TEST_F(CsvTest, NamesTheRowOfAnotherLength) {
  ExpectMalformed(ReadText("1,2,3\n4,5\n"),
                  "row 2 column 3: the row has 2 columns, the first one 3");
  ExpectMalformed(ReadText("1,2,3\n4,5,6,7,8\n"),
                  "row 2 column 4: the row has 5 columns, the first one 3");
}

TEST_F(CsvTest, ClassTargetsAreWholeNumbers) {
  EXPECT_TRUE(ReadText("1,2.0\n", true).ok());
  ExpectMalformed(ReadText("1,2\n1,2.5\n", true), "row 2 column 2: target \"2.5\" is no class");
  ExpectMalformed(ReadText("1,-1\n", true), "row 1 column 2: target \"-1\" is no class");
  ExpectMalformed(ReadText("1,1e18\n", true), "row 1 column 2");
}

TEST_F(CsvTest, RefusesFilesWithoutRowsOrFeatures) {
  ExpectMalformed(ReadText(""), "has no rows");
  ExpectMalformed(ReadText("\n\n"), "has no rows");
  ExpectMalformed(ReadText("1\n2\n"), "has one column");
}

TEST_F(CsvTest, MissingFilesAndRootsAreNotFound) {
  EXPECT_EQ(Read("data/none.csv").status().code(), absl::StatusCode::kNotFound);
  const absl::Status no_root = Read("other/t.csv").status();
  EXPECT_EQ(no_root.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(no_root.message(), "no data root \"other\"")) << no_root;
  EXPECT_EQ(Read("data/../t.csv").status().code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_EQ(Read("data/folder").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CsvTest, LinksDoNotLeaveTheRoot) {
  std::filesystem::create_symlink("/etc/passwd", folder_ / "link.csv");
  EXPECT_EQ(Read("data/link.csv").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace accel::engine
