#include "server/supervisor/record_buffer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::supervisor {

using accel::internal::v1::JobStatus;
using accel::v1::Checkpoint;
using accel::v1::EventRecord;
using accel::v1::LogRecord;
using accel::v1::MetricRecord;

RecordBuffer::RecordBuffer(std::unique_ptr<record::Writer> writer, size_t max_bytes)
    : writer_(std::move(writer)), max_bytes_(max_bytes) {}

void RecordBuffer::AddRow(Record record) {
  const size_t bytes = std::visit([](const auto& r) { return r.ByteSizeLong(); }, record);
  rows_.push_back({std::move(record), bytes});
  bytes_ += bytes;
  if (bytes_ > max_bytes_) GiveUpRows();
}

void RecordBuffer::GiveUpRows() {
  // A quarter at once, so that the rows are not gone through for each new one.
  const size_t target = max_bytes_ / 4 * 3;
  GiveUpOldest<LogRecord>(target);
  GiveUpOldest<MetricRecord>(target);
}

template <typename T>
void RecordBuffer::GiveUpOldest(size_t until_bytes) {
  size_t kept = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (bytes_ > until_bytes && std::holds_alternative<T>(rows_[i].record)) {
      bytes_ -= rows_[i].bytes;
      ++given_up_;
      continue;
    }
    if (kept != i) rows_[kept] = std::move(rows_[i]);
    ++kept;
  }
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(kept), rows_.end());
}

void RecordBuffer::SetStatus(JobStatus status) { status_ = std::move(status); }

void RecordBuffer::AddCheckpoint(Checkpoint checkpoint) {
  std::string name = checkpoint.name();
  checkpoints_.push_back({std::move(name), std::move(checkpoint)});
}

void RecordBuffer::RemoveCheckpoint(std::string name) {
  checkpoints_.push_back({std::move(name), std::nullopt});
}

bool RecordBuffer::dirty() const {
  return !rows_.empty() || !checkpoints_.empty() || status_.has_value();
}

absl::Status RecordBuffer::Commit() {
  if (!dirty()) return absl::OkStatus();
  if (given_up_ > 0) NoteLoss();
  ACCEL_RETURN_IF_ERROR(HandOver());
  ACCEL_RETURN_IF_ERROR(writer_->Commit());
  rows_.clear();
  bytes_ = 0;
  checkpoints_.clear();
  if (status_.has_value()) committed_status_ = *std::exchange(status_, std::nullopt);
  return absl::OkStatus();
}

absl::Status RecordBuffer::HandOver() {
  for (const Row& row : rows_) {
    ACCEL_RETURN_IF_ERROR(
        std::visit([this](const auto& r) { return writer_->Append(r).status(); }, row.record));
  }
  for (const CheckpointChange& change : checkpoints_) {
    ACCEL_RETURN_IF_ERROR(change.checkpoint.has_value() ? writer_->AddCheckpoint(*change.checkpoint)
                                                        : writer_->RemoveCheckpoint(change.name));
  }
  return status_.has_value() ? writer_->SetStatus(*status_) : absl::OkStatus();
}

void RecordBuffer::NoteLoss() {
  EventRecord event;
  // Rows of any kind have these two; those of the newest row fit.
  if (!rows_.empty()) {
    std::visit(
        [&event](const auto& r) {
          *event.mutable_time() = r.time();
          event.set_attempt(r.attempt());
        },
        rows_.back().record);
  }
  event.set_message(absl::StrCat(
      given_up_, " rows of the record were lost because it could not be written for too long"));
  event.mutable_warning()->set_subject("record");
  event.mutable_warning()->set_count(given_up_);
  given_up_ = 0;
  AddRow(std::move(event));
}

}  // namespace accel::supervisor
