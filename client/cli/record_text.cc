#include "client/cli/record_text.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/human.h"

namespace accel::cli {
namespace {

// Values by name in order, maps flattened.
std::map<std::string, std::string> FlatValues(const v1::MetricRecord& record,
                                              std::string (*format)(double)) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : record.values()) {
    if (value.has_number()) {
      values[key] = format(value.number());
    } else if (value.has_map()) {
      for (const auto& [name, number] : value.map().values()) {
        values[absl::StrCat(key, "/", name)] = format(number);
      }
    } else {
      values[key] = value.text();
    }
  }
  return values;
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string ClockTime(const google::protobuf::Timestamp& time, absl::TimeZone zone) {
  return absl::FormatTime("%H:%M:%E3S", ToTime(time), zone);
}

}  // namespace

std::string EventLine(const v1::EventRecord& event, absl::TimeZone zone) {
  return absl::StrCat(ClockTime(event.time(), zone), "  ", event.message());
}

std::string LogLine(const v1::LogRecord& record, bool with_time, absl::TimeZone zone) {
  std::string line;
  if (with_time) absl::StrAppend(&line, ClockTime(record.time(), zone), " ");
  absl::StrAppend(&line, record.has_rank() ? absl::StrCat("rank ", record.rank()) : "supervisor",
                  " | ", record.text(), record.truncated() ? " ... (cut)" : "");
  return line;
}

std::string MetricLine(const v1::MetricRecord& record) {
  std::string line = absl::StrCat("step ", record.step());
  if (record.has_rank()) absl::StrAppend(&line, "  rank ", record.rank());
  for (const auto& [key, value] : FlatValues(record, HumanNumber)) {
    absl::StrAppend(&line, "  ", key, " ", value);
  }
  return line;
}

std::string CsvRows(const v1::MetricRecord& record) {
  const std::string head = absl::StrCat(
      record.sequence(), ",",
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", ToTime(record.time()), absl::UTCTimeZone()), ",",
      record.step(), ",", record.has_rank() ? absl::StrCat(record.rank()) : "", ",");
  std::string rows;
  for (const auto& [key, value] : FlatValues(record, ExactNumber)) {
    absl::StrAppend(&rows, head, CsvField(key), ",", CsvField(value), "\n");
  }
  return rows;
}

}  // namespace accel::cli
