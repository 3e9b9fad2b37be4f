#include "core/tracking/feed_source.h"

#include <algorithm>
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
  call.attempt = record.attempt();
  for (auto& [key, value] : *record.mutable_values()) call.values.emplace(key, std::move(value));
  return call;
}

}  // namespace

FeedSource::FeedSource(std::filesystem::path record_path, std::string tracker,
                       bool main_process_only, bool keeps_first, record::ReadLimits limits)
    : record_path_(std::move(record_path)),
      tracker_(std::move(tracker)),
      main_process_only_(main_process_only),
      keeps_first_(keeps_first),
      limits_(limits) {}

absl::Status FeedSource::Open() {
  if (cursors_ != nullptr) return absl::OkStatus();
  ACCEL_ASSIGN_OR_RETURN(reader_, record::Reader::Open(record_path_));
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<record::TrackerCursors> cursors,
                         record::TrackerCursors::Open(record_path_));
  ACCEL_ASSIGN_OR_RETURN(const std::optional<int64_t> cursor, cursors->Get(tracker_));
  ACCEL_ASSIGN_OR_RETURN(const std::optional<accel::v1::TrackerStatus> status,
                         cursors->GetStatus(tracker_));
  kept_status_ = status.value_or(accel::v1::TrackerStatus());
  configured_ = cursor.has_value();
  position_ = cursor.value_or(0);
  ACCEL_RETURN_IF_ERROR(ReplayFilter());
  cursors_ = std::move(cursors);
  return absl::OkStatus();
}

absl::Status FeedSource::ReplayFilter() {
  filter_ = RewindFilter();
  for (int64_t after = 0; after < position_;) {
    ACCEL_ASSIGN_OR_RETURN(record::Rows<accel::v1::MetricRecord> rows,
                           reader_->ReadMetrics(after, limits_));
    for (accel::v1::MetricRecord& record : rows.records) {
      if (record.sequence() > position_) break;
      LogCall call = ToLogCall(std::move(record));
      filter_.Take(&call, /*drop=*/false);
    }
    if (rows.records.empty()) break;
    after = rows.next_after;
  }
  filter_before_ = filter_;
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
  filter_ = filter_before_;
  for (accel::v1::MetricRecord& record : rows.records) {
    if (main_process_only_ && record.has_rank() && record.rank() != 0) continue;
    LogCall call = ToLogCall(std::move(record));
    if (filter_.BeginsAttempt(call.attempt) && !batch.calls.empty()) {
      batch.next_after = call.sequence - 1;
      break;
    }
    const auto repeat = filter_.Take(&call, keeps_first_);
    if (repeat.has_value()) batch.repeat = repeat;
    if (!call.values.empty()) batch.calls.push_back(std::move(call));
  }
  return batch;
}

absl::Status FeedSource::Advance(const Batch& batch, std::optional<int64_t> held_from) {
  const int64_t cursor = std::min(batch.next_after, held_from.value_or(batch.next_after + 1) - 1);
  // Rows that are none of the tracker's can be passed over again after a restart.
  if (!batch.calls.empty()) ACCEL_RETURN_IF_ERROR(cursors_->Set(tracker_, cursor));
  position_ = batch.next_after;
  filter_before_ = filter_;
  return absl::OkStatus();
}

absl::Status FeedSource::AdvanceToPosition() { return cursors_->Set(tracker_, position_); }

}  // namespace accel::tracking
