#ifndef ACCEL_CLIENT_RESUMING_STREAM_H_
#define ACCEL_CLIENT_RESUMING_STREAM_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/call_status.h"
#include "client/record_stream.h"
#include "core/base/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace accel::client {

// RecordStream over one of TelemetryService's methods. `Request` has name and range, `Response` one
// of batch, progress and end.
template <typename Request, typename Response, typename Record>
class ResumingStream final : public RecordStream<Record> {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<Response>>;
  // Starts the call; must keep alive what it needs.
  using Open = std::function<Reader(grpc::ClientContext*, const Request&)>;

  // `reached` says whether the daemon has ever answered; it is shared by all calls of a client.
  ResumingStream(Open open, Request request, ResumePolicy policy,
                 std::shared_ptr<std::atomic<bool>> reached)
      : open_(std::move(open)),
        request_(std::move(request)),
        policy_(std::move(policy)),
        reached_(std::move(reached)),
        sequence_(request_.range().after_sequence()) {}

  ~ResumingStream() override {
    Cancel();
    if (reader_ != nullptr) (void)Finish();
  }

  absl::StatusOr<std::optional<Record>> Next() override {
    while (true) {
      while (position_ < batch_.records_size()) {
        Record record = std::move(*batch_.mutable_records(position_++));
        if (record.sequence() <= sequence_) continue;
        sequence_ = record.sequence();
        return record;
      }
      if (ended_) return std::nullopt;
      const absl::Status status = ReadMessage();
      if (!status.ok()) ACCEL_RETURN_IF_ERROR(AwaitRetry(status));
    }
  }

  int64_t sequence() const override { return sequence_; }

  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }

 private:
  absl::Status Start() {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return absl::CancelledError("stream was cancelled");
    context_ = std::make_unique<grpc::ClientContext>();
    request_.mutable_range()->set_after_sequence(sequence_);
    reader_ = open_(context_.get(), request_);
    return absl::OkStatus();
  }

  absl::Status ReadMessage() {
    if (reader_ == nullptr) ACCEL_RETURN_IF_ERROR(Start());
    Response response;
    if (!reader_->Read(&response)) {
      const absl::Status status = Finish();
      if (status.ok()) return absl::UnavailableError("stream ended without its last message");
      if (status.code() != absl::StatusCode::kUnavailable) reached_->store(true);
      return status;
    }
    reached_->store(true);
    failures_ = 0;
    batch_.Clear();
    position_ = 0;
    if (response.has_batch()) {
      batch_.Swap(response.mutable_batch());
    } else if (response.has_progress()) {
      sequence_ = std::max(sequence_, response.progress().sequence());
    } else if (response.has_end()) {
      sequence_ = std::max(sequence_, response.end().sequence());
      ended_ = true;
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    const absl::Status status = FromGrpcStatus(reader_->Finish());
    absl::MutexLock lock(&mutex_);
    reader_ = nullptr;
    context_ = nullptr;
    return status;
  }

  // A server that shuts down cancels its calls: CANCELLED is an interruption unless it was ours.
  bool CanResume(const absl::Status& cause) {
    absl::MutexLock lock(&mutex_);
    return !cancelled_ && (cause.code() == absl::StatusCode::kUnavailable ||
                           cause.code() == absl::StatusCode::kCancelled);
  }

  absl::Status AwaitRetry(const absl::Status& cause) {
    if (!CanResume(cause)) return cause;
    const int limit = reached_->load() ? policy_.max_attempts : std::min(3, policy_.max_attempts);
    if (failures_ == limit) {
      return absl::UnavailableError(absl::StrCat("stream broke off after row ", sequence_, ", ",
                                                 failures_,
                                                 " tries to resume it failed: ", cause.message()));
    }
    const absl::Duration delay = Jitter(
        std::min(policy_.first_delay * (int64_t{1} << std::min(failures_, 20)), policy_.max_delay));
    ++failures_;
    if (policy_.observer) policy_.observer({cause, failures_, sequence_, delay});
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), delay)) {
      return absl::CancelledError("stream was cancelled");
    }
    return absl::OkStatus();
  }

  absl::Duration Jitter(absl::Duration delay) {
    return delay * std::uniform_real_distribution<double>(0.8, 1.0)(random_);
  }

  const Open open_;
  Request request_;
  const ResumePolicy policy_;
  const std::shared_ptr<std::atomic<bool>> reached_;
  std::minstd_rand random_{std::random_device{}()};

  std::decay_t<decltype(std::declval<Response>().batch())> batch_;
  int position_ = 0;
  int64_t sequence_;
  int failures_ = 0;
  bool ended_ = false;
  Reader reader_;

  absl::Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace accel::client

#endif  // ACCEL_CLIENT_RESUMING_STREAM_H_
