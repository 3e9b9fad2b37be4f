#ifndef ACCEL_CLIENT_CLI_RECORD_TEXT_H_
#define ACCEL_CLIENT_CLI_RECORD_TEXT_H_

#include <string>

#include "absl/time/time.h"
#include "accel/v1/telemetry.pb.h"

namespace accel::cli {

// Rows of a job's record as lines of text, without the line end. Texts of others are as they came,
// unescaped.

// `12:30:01.250  state STARTING -> RUNNING`.
std::string EventLine(const v1::EventRecord& event, absl::TimeZone zone);

// `rank 0 | text`, or `supervisor | text`; with the time in front where wanted.
std::string LogLine(const v1::LogRecord& record, bool with_time, absl::TimeZone zone);

// `step 12  train/learning_rate 0.001  train/loss 0.31`, names in order.
std::string MetricLine(const v1::MetricRecord& record);

// Header of CsvRows.
inline constexpr char kCsvHeader[] = "sequence,time,step,rank,key,value";

// One line for each value (RFC 4180 quoting, ended by \n), so that rows with different names fit in
// one file. `rank` is empty for what all ranks measured together; a map's numbers are named
// `key/name`. Time is RFC 3339 in UTC.
std::string CsvRows(const v1::MetricRecord& record);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_RECORD_TEXT_H_
