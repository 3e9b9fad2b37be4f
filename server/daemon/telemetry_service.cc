#include "server/daemon/telemetry_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "server/daemon/cursor_stream.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {
namespace {

using accel::v1::EventRecord;
using accel::v1::LogRecord;
using accel::v1::MetricRecord;

constexpr int kMaxKeys = 1000;
constexpr int kMaxRanks = 1024;

struct MetricsSource {
  using Response = accel::v1::StreamMetricsResponse;
  static constexpr char kKind[] = "metrics";

  absl::StatusOr<record::Rows<MetricRecord>> Read(record::Reader* reader, int64_t after) const {
    return reader->ReadMetrics(after);
  }
  bool Keep(MetricRecord* row) const {
    if (keys.empty()) return true;
    std::vector<std::string> unwanted;
    for (const auto& [key, value] : row->values()) {
      if (!keys.contains(key)) unwanted.push_back(key);
    }
    for (const std::string& key : unwanted) row->mutable_values()->erase(key);
    return !row->values().empty();
  }

  absl::flat_hash_set<std::string> keys;
};

struct LogsSource {
  using Response = accel::v1::StreamLogsResponse;
  static constexpr char kKind[] = "logs";

  absl::StatusOr<record::Rows<LogRecord>> Read(record::Reader* reader, int64_t after) const {
    return reader->ReadLogs(after);
  }
  bool Keep(LogRecord* row) const {
    return ranks.empty() || (row->has_rank() && ranks.contains(row->rank()));
  }

  absl::flat_hash_set<int32_t> ranks;
};

struct EventsSource {
  using Response = accel::v1::StreamEventsResponse;
  static constexpr char kKind[] = "events";

  absl::StatusOr<record::Rows<EventRecord>> Read(record::Reader* reader, int64_t after) const {
    return reader->ReadEvents(after);
  }
  bool Keep(EventRecord*) const { return true; }
};

// Adds what is wrong with the fields that all streams have; returns the job's id.
template <typename Request>
std::string ValidateStream(const Request& request, FieldViolations* violations) {
  const absl::StatusOr<std::string> id = ParseJobName(request.name());
  if (!id.ok()) violations->Add("name", "must be jobs/{job}");
  if (request.range().after_sequence() < 0) {
    violations->Add("range.after_sequence",
                    absl::StrCat("got ", request.range().after_sequence(), "; must be at least 0"));
  }
  return id.ok() ? *id : "";
}

void ValidateCount(absl::string_view field, int count, int most, FieldViolations* violations) {
  if (count > most) {
    violations->Add(field, absl::StrCat("got ", count, " entries; at most ", most, " are allowed"));
  }
}

template <typename Source, typename Request>
grpc::ServerWriteReactor<typename Source::Response>* StartStream(StreamHub* hub,
                                                                 const Request& request,
                                                                 const std::string& job_id,
                                                                 const FieldViolations& violations,
                                                                 Source source) {
  if (const absl::Status status = violations.ToStatus(); !status.ok()) {
    return new RefusedStream<typename Source::Response>(status);
  }
  return CursorStream<Source>::Start(hub, job_id, request.range(), std::move(source));
}

}  // namespace

grpc::ServerWriteReactor<accel::v1::StreamMetricsResponse>* TelemetryService::StreamMetrics(
    grpc::CallbackServerContext*, const accel::v1::StreamMetricsRequest* request) {
  FieldViolations violations;
  const std::string id = ValidateStream(*request, &violations);
  ValidateCount("keys", request->keys_size(), kMaxKeys, &violations);
  MetricsSource source;
  source.keys.insert(request->keys().begin(), request->keys().end());
  return StartStream(hub_, *request, id, violations, std::move(source));
}

grpc::ServerWriteReactor<accel::v1::StreamLogsResponse>* TelemetryService::StreamLogs(
    grpc::CallbackServerContext*, const accel::v1::StreamLogsRequest* request) {
  FieldViolations violations;
  const std::string id = ValidateStream(*request, &violations);
  ValidateCount("ranks", request->ranks_size(), kMaxRanks, &violations);
  LogsSource source;
  for (int i = 0; i < request->ranks_size(); ++i) {
    if (request->ranks(i) < 0) {
      violations.Add(absl::StrCat("ranks[", i, "]"),
                     absl::StrCat("got ", request->ranks(i), "; must be at least 0"));
    }
    source.ranks.insert(request->ranks(i));
  }
  return StartStream(hub_, *request, id, violations, std::move(source));
}

grpc::ServerWriteReactor<accel::v1::StreamEventsResponse>* TelemetryService::StreamEvents(
    grpc::CallbackServerContext*, const accel::v1::StreamEventsRequest* request) {
  FieldViolations violations;
  const std::string id = ValidateStream(*request, &violations);
  return StartStream(hub_, *request, id, violations, EventsSource{});
}

}  // namespace accel::daemon
