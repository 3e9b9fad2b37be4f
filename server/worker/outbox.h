#ifndef ACCEL_SERVER_WORKER_OUTBOX_H_
#define ACCEL_SERVER_WORKER_OUTBOX_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/base/message_channel.h"
#include "core/engine/loop/training.h"

namespace accel::worker {

// Sends a worker's reports to its supervisor from a thread of its own, in order and in batches, so
// that training never waits for a socket.
class Outbox final : public engine::TrainingObserver {
 public:
  // Longest time between a report and its sending, and most reports of one message.
  static constexpr absl::Duration kInterval = absl::Milliseconds(25);
  static constexpr int kMaxBatch = 4096;

  // `channel` must outlive this. `on_lost` is called once, from the outbox's thread, when sending
  // fails; later reports are dropped.
  Outbox(MessageChannel& channel, std::function<void(const absl::Status&)> on_lost);
  ~Outbox() override;

  // Queues a report, to go with the next batch.
  void OnReport(accel::internal::v1::WorkerReport report) override ABSL_LOCKS_EXCLUDED(mutex_);

  // Queues a report and sends all that is queued at once.
  void OnUrgentReport(accel::internal::v1::WorkerReport report) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns when all reports so far are sent. Reports that come later are dropped.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool HasReports() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool Urgent() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return urgent_ || closing_; }
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next batch; false when there will be none.
  bool Take(accel::internal::v1::FromWorker* batch) ABSL_LOCKS_EXCLUDED(mutex_);

  MessageChannel& channel_;
  const std::function<void(const absl::Status&)> on_lost_;
  absl::Mutex mutex_;
  accel::internal::v1::FromWorker queue_ ABSL_GUARDED_BY(mutex_);
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace accel::worker

#endif  // ACCEL_SERVER_WORKER_OUTBOX_H_
