#ifndef ACCEL_SERVER_DAEMON_CURSOR_STREAM_H_
#define ACCEL_SERVER_DAEMON_CURSOR_STREAM_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "accel/v1/telemetry.pb.h"
#include "core/record/reader.h"
#include "grpcpp/support/server_callback.h"
#include "server/daemon/job_folder.h"
#include "server/daemon/stream_hub.h"

namespace accel::daemon {

// A stream that is refused.
template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit RefusedStream(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

// Sends a job's rows of one kind after a sequence number. Its only memory is a cursor and the one
// batch that is being written: the next is read from the record when gRPC has taken the last.
//
// `Source` gives the kind:
//   using Response = ...;                 with batch, progress and end
//   static constexpr char kKind[];        label of the metrics
//   absl::StatusOr<record::Rows<R>> Read(record::Reader*, int64_t after) const;
//   bool Keep(R*) const;                  whether a row is wanted; may cut it down
template <typename Source>
class CursorStream final : public grpc::ServerWriteReactor<typename Source::Response>,
                           public Stream {
 public:
  using Response = typename Source::Response;

  // Admits and starts a stream; gRPC owns what is returned.
  static grpc::ServerWriteReactor<Response>* Start(StreamHub* hub, std::string job_id,
                                                   const accel::v1::RecordRange& range,
                                                   Source source) {
    auto stream = std::make_shared<CursorStream>(hub, std::move(job_id), range, std::move(source));
    if (const absl::Status status = hub->Add(stream); !status.ok()) {
      return new RefusedStream<Response>(status);
    }
    stream->self_ = stream;
    stream->environment_->jobs->Watch(stream->job_id_, stream);
    stream->environment_->observer->OnSubscriber(Source::kKind, 1);
    stream->Wake();
    return stream.get();
  }

  CursorStream(StreamHub* hub, std::string job_id, const accel::v1::RecordRange& range,
               Source source)
      : Stream(hub->environment()),
        hub_(hub),
        job_id_(std::move(job_id)),
        source_(std::move(source)),
        follow_(range.follow()),
        cursor_(range.after_sequence()),
        last_sent_ns_(NowNs()) {}

  void OnWriteDone(bool ok) override {
    if (!ok) cancelled_ = true;
    Written();
  }

  void OnCancel() override {
    cancelled_ = true;
    Wake();
  }

  void OnDone() override {
    environment_->observer->OnSubscriber(Source::kKind, -1);
    environment_->jobs->Unwatch(job_id_, this);
    hub_->Remove(this);
    // The pool may still hold the stream; the last one to let go deletes it.
    const std::shared_ptr<CursorStream> self = std::move(self_);
  }

  void OnTick(absl::Duration now) override {
    if (IdleFor(now) >= hub_->idle_interval()) Wake();
  }

 private:
  // Rows that are looked at before other streams get their turn.
  static constexpr int kReadsInARow = 8;

  Next Pump() override {
    if (finished_) return Next::kSleep;
    if (cancelled_) return End(absl::CancelledError("the client has gone"));
    if (environment_->draining) return End(Draining(cursor_));
    // Asked before reading: what an ended job has written is all there is to read.
    const absl::StatusOr<JobPulse> pulse = environment_->jobs->Pulse(job_id_);
    if (!pulse.ok()) return End(pulse.status());
    const bool nothing_new =
        follow_ && !pulse->ended && pulse->last_sequence > 0 && pulse->last_sequence <= cursor_;
    if (!nothing_new) {
      const absl::StatusOr<std::optional<Next>> sent = SendRows();
      if (!sent.ok()) return End(sent.status());
      if (sent->has_value()) return **sent;
    }
    if (!follow_) return EndInOrder(accel::v1::StreamEnd::CAUGHT_UP);
    if (pulse->ended) return EndInOrder(accel::v1::StreamEnd::JOB_ENDED);
    if (IdleFor(environment_->clock->Monotonic()) < hub_->idle_interval()) return Next::kSleep;
    response_.mutable_progress()->set_sequence(cursor_);
    return Send();
  }

  // None when there are no more rows at the moment.
  absl::StatusOr<std::optional<Next>> SendRows() {
    if (reader_ == nullptr) {
      auto reader =
          record::Reader::Open(JobFolder{environment_->jobs->jobs_dir() / job_id_}.record());
      if (absl::IsNotFound(reader.status())) return std::optional<Next>();
      if (!reader.ok()) return reader.status();
      reader_ = *std::move(reader);
    }
    for (int reads = 0; reads < kReadsInARow; ++reads) {
      auto rows = source_.Read(reader_.get(), cursor_);
      if (!rows.ok()) return rows.status();
      cursor_ = std::max(cursor_, rows->next_after);
      if (rows->records.empty()) return std::optional<Next>();
      for (auto& record : rows->records) {
        if (source_.Keep(&record)) {
          *response_.mutable_batch()->add_records() = std::move(record);
        }
      }
      if (response_.has_batch()) {
        environment_->observer->OnRecordsSent(Source::kKind, response_.batch().records_size());
        return std::optional<Next>(Send());
      }
    }
    return std::optional<Next>(Next::kAgain);
  }

  Next Send() {
    // Swapped, so that the written message stays as it is while the next one is filled.
    written_.Clear();
    written_.Swap(&response_);
    last_sent_ns_ = NowNs();
    this->StartWrite(&written_);
    return Next::kBusy;
  }

  Next EndInOrder(accel::v1::StreamEnd::Reason reason) {
    finished_ = true;
    written_.Clear();
    written_.mutable_end()->set_reason(reason);
    written_.mutable_end()->set_sequence(cursor_);
    this->StartWriteAndFinish(&written_, grpc::WriteOptions(), grpc::Status::OK);
    return Next::kBusy;
  }

  Next End(const absl::Status& status) {
    finished_ = true;
    this->Finish(ToGrpcStatus(status));
    return Next::kBusy;
  }

  int64_t NowNs() const { return absl::ToInt64Nanoseconds(environment_->clock->Monotonic()); }
  absl::Duration IdleFor(absl::Duration now) const {
    return now - absl::Nanoseconds(last_sent_ns_.load());
  }

  StreamHub* const hub_;
  const std::string job_id_;
  const Source source_;
  const bool follow_;

  // Used by Pump alone, which is never called twice at a time.
  int64_t cursor_;
  std::unique_ptr<record::Reader> reader_;
  Response response_;
  Response written_;
  bool finished_ = false;

  // Of monotonic time.
  std::atomic<int64_t> last_sent_ns_;
  std::atomic<bool> cancelled_ = false;
  // Keeps the stream until gRPC is done with it.
  std::shared_ptr<CursorStream> self_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_CURSOR_STREAM_H_
