#include "server/worker/outbox.h"

#include <utility>

namespace accel::worker {

using accel::internal::v1::FromWorker;
using accel::internal::v1::WorkerReport;

Outbox::Outbox(MessageChannel& channel, std::function<void(const absl::Status&)> on_lost)
    : channel_(channel), on_lost_(std::move(on_lost)), thread_([this] { Run(); }) {}

Outbox::~Outbox() { Close(); }

void Outbox::OnReport(WorkerReport report) {
  absl::MutexLock lock(&mutex_);
  if (!closing_) *queue_.add_reports() = std::move(report);
}

void Outbox::OnUrgentReport(WorkerReport report) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  *queue_.add_reports() = std::move(report);
  urgent_ = true;
}

void Outbox::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool Outbox::HasReports() const { return queue_.reports_size() > 0 || closing_; }

void Outbox::Run() {
  FromWorker batch;
  while (Take(&batch)) {
    if (const absl::Status sent = channel_.Send(batch); !sent.ok()) {
      {
        absl::MutexLock lock(&mutex_);
        closing_ = true;
      }
      return on_lost_(sent);
    }
  }
}

bool Outbox::Take(FromWorker* batch) {
  batch->Clear();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Outbox::HasReports));
  // Gives a burst the time to become one message.
  mutex_.AwaitWithTimeout(absl::Condition(this, &Outbox::Urgent), kInterval);
  if (queue_.reports_size() <= kMaxBatch) {
    batch->Swap(&queue_);
    urgent_ = false;
  } else {
    auto* reports = queue_.mutable_reports();
    for (int i = 0; i < kMaxBatch; ++i) *batch->add_reports() = std::move(*reports->Mutable(i));
    reports->DeleteSubrange(0, kMaxBatch);
  }
  return batch->reports_size() > 0;
}

}  // namespace accel::worker
