#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/sqlite.h"
#include "core/record/reader.h"
#include "core/record/tracker_cursors.h"
#include "core/record/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::record {
namespace {

namespace fs = std::filesystem;
using ::accel::v1::EventRecord;
using ::accel::v1::LogRecord;
using ::accel::v1::MetricRecord;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

MetricRecord Metric(int64_t step) {
  MetricRecord record;
  record.set_step(step);
  (*record.mutable_values())["train/loss"].set_number(0.5);
  return record;
}

LogRecord Log(const std::string& text) {
  LogRecord record;
  record.set_text(text);
  return record;
}

class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_record_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "job.db";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Writer> OpenWriter() {
    auto writer = Writer::Open(path_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::unique_ptr<Reader> OpenReader() {
    auto reader = Reader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  fs::path folder_;
  fs::path path_;
};

template <typename Record>
std::vector<int64_t> Sequences(const Rows<Record>& rows) {
  std::vector<int64_t> sequences;
  for (const Record& record : rows.records) sequences.push_back(record.sequence());
  return sequences;
}

TEST_F(RecordTest, SequencesRunOverAllKindsAndRestarts) {
  auto writer = OpenWriter();
  EXPECT_EQ(writer->last_sequence(), 0);
  MetricRecord metric = Metric(1);
  metric.set_sequence(99);
  EXPECT_EQ(*writer->Append(metric), 1);
  EXPECT_EQ(*writer->Append(Log("a")), 2);
  EXPECT_EQ(writer->last_sequence(), 0);
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(writer->last_sequence(), 2);
  EXPECT_EQ(*writer->Append(EventRecord()), 3);
  writer = OpenWriter();
  EXPECT_EQ(writer->last_sequence(), 2);
  EXPECT_EQ(*writer->Append(EventRecord()), 3);
  ASSERT_TRUE(writer->Commit().ok());
  auto reader = OpenReader();
  EXPECT_THAT(Sequences(*reader->ReadMetrics(0)), ElementsAre(1));
  EXPECT_THAT(Sequences(*reader->ReadLogs(0)), ElementsAre(2));
  EXPECT_THAT(Sequences(*reader->ReadEvents(0)), ElementsAre(3));
  EXPECT_EQ(*reader->LastSequence(), 3);
  EXPECT_EQ(reader->ReadMetrics(0)->records[0].values().at("train/loss").number(), 0.5);
}

TEST_F(RecordTest, NothingIsVisibleBeforeCommit) {
  auto writer = OpenWriter();
  auto reader = OpenReader();
  ASSERT_TRUE(writer->Append(Metric(1)).ok());
  accel::internal::v1::JobStatus status;
  status.set_end_time_us(7);
  ASSERT_TRUE(writer->SetStatus(status).ok());
  accel::v1::Checkpoint checkpoint;
  checkpoint.set_name("jobs/a/checkpoints/1");
  ASSERT_TRUE(writer->AddCheckpoint(checkpoint).ok());
  EXPECT_THAT(reader->ReadMetrics(0)->records, IsEmpty());
  EXPECT_EQ(reader->ReadStatus().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(*reader->ListCheckpoints(), IsEmpty());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(Sequences(*reader->ReadMetrics(0)), ElementsAre(1));
  EXPECT_EQ(reader->ReadStatus()->end_time_us(), 7);
  EXPECT_EQ(reader->ListCheckpoints()->size(), 1u);
}

TEST_F(RecordTest, NextAfterSkipsOtherKinds) {
  auto writer = OpenWriter();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(writer->Append(Metric(i)).ok());
    ASSERT_TRUE(writer->Append(Log("line")).ok());
  }
  ASSERT_TRUE(writer->Commit().ok());
  auto reader = OpenReader();
  auto rows = *reader->ReadMetrics(0, {.rows = 2});
  EXPECT_THAT(Sequences(rows), ElementsAre(1, 3));
  EXPECT_EQ(rows.next_after, 3);
  rows = *reader->ReadMetrics(rows.next_after, {.rows = 3});
  EXPECT_THAT(Sequences(rows), ElementsAre(5, 7, 9));
  EXPECT_EQ(rows.next_after, 10);
  rows = *reader->ReadMetrics(10);
  EXPECT_THAT(rows.records, IsEmpty());
  EXPECT_EQ(rows.next_after, 10);
  EXPECT_EQ(reader->ReadEvents(0)->next_after, 10);
  EXPECT_EQ(reader->ReadMetrics(50)->next_after, 50);
}

TEST_F(RecordTest, LimitsOfBytesLetOneRowThrough) {
  auto writer = OpenWriter();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer->Append(Log(std::string(1000, 'x'))).ok());
  ASSERT_TRUE(writer->Commit().ok());
  auto reader = OpenReader();
  EXPECT_THAT(Sequences(*reader->ReadLogs(0, {.bytes = 10})), ElementsAre(1));
  EXPECT_THAT(Sequences(*reader->ReadLogs(1, {.bytes = 2500})), ElementsAre(2, 3));
  EXPECT_THAT(Sequences(*reader->ReadLogs(0, {.bytes = 2500})), ElementsAre(1, 2));
  EXPECT_THAT(Sequences(*reader->ReadLogs(0, {.rows = 0})), ElementsAre(1));
}

TEST_F(RecordTest, CheckpointsNewestFirstByName) {
  auto writer = OpenWriter();
  auto add = [&](const std::string& name, int64_t step) {
    accel::v1::Checkpoint checkpoint;
    checkpoint.set_name(name);
    checkpoint.set_step(step);
    return writer->AddCheckpoint(checkpoint);
  };
  ASSERT_TRUE(add("a", 1).ok());
  ASSERT_TRUE(add("b", 2).ok());
  ASSERT_TRUE(add("c", 3).ok());
  ASSERT_TRUE(writer->Commit().ok());
  ASSERT_TRUE(writer->RemoveCheckpoint("b").ok());
  ASSERT_TRUE(add("a", 4).ok());
  EXPECT_EQ(add("", 5).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(writer->Commit().ok());
  const auto checkpoints = *OpenReader()->ListCheckpoints();
  ASSERT_EQ(checkpoints.size(), 2u);
  EXPECT_EQ(checkpoints[0].name(), "a");
  EXPECT_EQ(checkpoints[0].step(), 4);
  EXPECT_EQ(checkpoints[1].name(), "c");
}

TEST_F(RecordTest, FailedCommitLeavesNothingAndCanBeRepeated) {
  auto writer = OpenWriter();
  ASSERT_TRUE(writer->Append(Metric(1)).ok());
  ASSERT_TRUE(writer->Commit().ok());
  // Takes the next numbers away from the writer.
  auto database = *SqliteDatabase::Open(path_);
  ASSERT_TRUE(database->Exec("INSERT INTO rows VALUES (3, 2, '')").ok());
  ASSERT_TRUE(writer->Append(Metric(2)).ok());
  ASSERT_TRUE(writer->Append(Metric(3)).ok());
  EXPECT_EQ(writer->Commit().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(writer->last_sequence(), 1);
  EXPECT_THAT(Sequences(*OpenReader()->ReadMetrics(0)), ElementsAre(1));
  ASSERT_TRUE(database->Exec("DELETE FROM rows WHERE sequence = 3").ok());
  EXPECT_EQ(*writer->Append(Metric(2)), 2);
  EXPECT_EQ(*writer->Append(Metric(3)), 3);
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_THAT(Sequences(*OpenReader()->ReadMetrics(0)), ElementsAre(1, 2, 3));
}

TEST_F(RecordTest, MissingAndForeignRecords) {
  EXPECT_EQ(Reader::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TrackerCursors::Open(path_).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path_).close();
  EXPECT_EQ(Reader::Open(path_).status().code(), absl::StatusCode::kNotFound);
  OpenWriter();
  ASSERT_TRUE((*SqliteDatabase::Open(path_))->Exec("PRAGMA user_version=1000").ok());
  EXPECT_EQ(Writer::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reader::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TrackerCursors::Open(path_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RecordTest, DamagedRowIsDataLoss) {
  OpenWriter();
  ASSERT_TRUE((*SqliteDatabase::Open(path_))->Exec("INSERT INTO rows VALUES (1, 1, x'ff')").ok());
  const absl::Status status = OpenReader()->ReadMetrics(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("row 1"));
}

TEST_F(RecordTest, CursorsAreKeptWhileTheWriterWrites) {
  auto writer = OpenWriter();
  auto cursors = *TrackerCursors::Open(path_);
  EXPECT_EQ(*cursors->Get("tensorboard"), std::nullopt);
  ASSERT_TRUE(writer->Append(Metric(1)).ok());
  ASSERT_TRUE(cursors->Set("tensorboard", 0).ok());
  EXPECT_EQ(*cursors->Get("tensorboard"), 0);
  ASSERT_TRUE(writer->Commit().ok());
  ASSERT_TRUE(cursors->Set("tensorboard", 1).ok());
  ASSERT_TRUE(cursors->Set("other", 5).ok());
  auto again = *TrackerCursors::Open(path_);
  EXPECT_EQ(*again->Get("tensorboard"), 1);
  EXPECT_EQ(*again->Get("other"), 5);
}

}  // namespace
}  // namespace accel::record
