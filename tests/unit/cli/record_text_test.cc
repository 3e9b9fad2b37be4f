#include "client/cli/record_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace accel::cli {
namespace {

v1::MetricRecord Row() {
  v1::MetricRecord record;
  record.set_sequence(7);
  record.mutable_time()->set_seconds(1935489601);
  record.mutable_time()->set_nanos(250000000);
  record.set_step(12);
  (*record.mutable_values())["train/loss"].set_number(1.0 / 3);
  (*record.mutable_values())["note"].set_text("a, \"b\"");
  (*(*record.mutable_values())["grad"].mutable_map()->mutable_values())["w"] =
      std::numeric_limits<double>::quiet_NaN();
  return record;
}

TEST(RecordTextTest, CsvHasOneLineForEachValue) {
  v1::MetricRecord record = Row();
  EXPECT_EQ(CsvRows(record),
            "7,2031-05-02T12:00:01.250000Z,12,,grad/w,nan\n"
            "7,2031-05-02T12:00:01.250000Z,12,,note,\"a, \"\"b\"\"\"\n"
            "7,2031-05-02T12:00:01.250000Z,12,,train/loss,0.3333333333333333\n");
  record.set_rank(1);
  record.mutable_values()->clear();
  (*record.mutable_values())["x"].set_number(2);
  EXPECT_EQ(CsvRows(record), "7,2031-05-02T12:00:01.250000Z,12,1,x,2\n");
}

TEST(RecordTextTest, MetricLineIsInOrderOfNames) {
  EXPECT_EQ(MetricLine(Row()), "step 12  grad/w nan  note a, \"b\"  train/loss 0.333333");
}

TEST(RecordTextTest, EventLine) {
  v1::EventRecord event;
  event.mutable_time()->set_seconds(1935489601);
  event.set_message("state STARTING -> RUNNING");
  EXPECT_EQ(EventLine(event, absl::UTCTimeZone()), "12:00:01.000  state STARTING -> RUNNING");
}

TEST(RecordTextTest, LogLineNamesTheWriter) {
  v1::LogRecord record;
  record.mutable_time()->set_seconds(1935489601);
  record.set_text("hello");
  EXPECT_EQ(LogLine(record, false, absl::UTCTimeZone()), "supervisor | hello");
  record.set_rank(0);
  record.set_truncated(true);
  EXPECT_EQ(LogLine(record, true, absl::UTCTimeZone()), "12:00:01.000 rank 0 | hello ... (cut)");
}

}  // namespace
}  // namespace accel::cli
