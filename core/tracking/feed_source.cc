#include "core/tracking/feed_source.h"

#include <optional>
#include <utility>

#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

LogCall ToLogCall(accel::v1::MetricRecord record) {
  LogCall call;
  call.sequence = record.sequence();
  call.time =
      absl::FromUnixSeconds(record.time().seconds()) + absl::Nanoseconds(record.time().nanos());
  call.step = record.step();
  if (record.has_rank()) call.rank = record.rank();
  for (auto& [key, value] : *record.mutable_values()) call.values.emplace(key, std::move(value));
  return call;
}

}  // namespace

FeedSource::FeedSource(std::filesystem::path record_path, std::string tracker,
                       bool main_process_only, record::ReadLimits limits)
    : record_path_(std::move(record_path)),
      tracker_(std::move(tracker)),
      main_process_only_(main_process_only),
      limits_(limits) {}

absl::Status FeedSource::Open() {
  if (cursors_ != nullptr) return absl::OkStatus();
  ACCEL_ASSIGN_OR_RETURN(reader_, record::Reader::Open(record_path_));
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<record::TrackerCursors> cursors,
                         record::TrackerCursors::Open(record_path_));
  ACCEL_ASSIGN_OR_RETURN(const std::optional<int64_t> cursor, cursors->Get(tracker_));
  configured_ = cursor.has_value();
  position_ = cursor.value_or(0);
  cursors_ = std::move(cursors);
  return absl::OkStatus();
}

absl::Status FeedSource::MarkConfigured() {
  ACCEL_RETURN_IF_ERROR(cursors_->Set(tracker_, position_));
  configured_ = true;
  return absl::OkStatus();
}

absl::StatusOr<FeedSource::Batch> FeedSource::Read() {
  ACCEL_ASSIGN_OR_RETURN(record::Rows<accel::v1::MetricRecord> rows,
                         reader_->ReadMetrics(position_, limits_));
  Batch batch;
  batch.next_after = rows.next_after;
  batch.at_end = rows.records.empty();
  for (accel::v1::MetricRecord& record : rows.records) {
    if (main_process_only_ && record.has_rank() && record.rank() != 0) continue;
    batch.calls.push_back(ToLogCall(std::move(record)));
  }
  return batch;
}

absl::Status FeedSource::Advance(const Batch& batch) {
  // Rows that are none of the tracker's can be passed over again after a restart.
  if (!batch.calls.empty()) ACCEL_RETURN_IF_ERROR(cursors_->Set(tracker_, batch.next_after));
  position_ = batch.next_after;
  return absl::OkStatus();
}

}  // namespace accel::tracking
