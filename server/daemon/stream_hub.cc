#include "server/daemon/stream_hub.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"

namespace accel::daemon {

void Stream::Wake() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(busy_, true)) {
      woken_ = true;
      return;
    }
  }
  Submit();
}

void Stream::Written() { Submit(); }

void Stream::Submit() {
  environment_->pool->Submit([self = shared_from_this()] { self->RunPump(); });
}

void Stream::RunPump() {
  {
    absl::MutexLock lock(&mutex_);
    woken_ = false;
  }
  const Next next = Pump();
  if (next == Next::kBusy) return;
  if (next == Next::kSleep) {
    absl::MutexLock lock(&mutex_);
    if (!woken_) {
      busy_ = false;
      return;
    }
  }
  Submit();
}

StreamHub::StreamHub(ServiceEnvironment* environment, StreamLimits limits)
    : environment_(environment), limits_(limits), ticker_(&StreamHub::RunTicker, this) {}

StreamHub::~StreamHub() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  ticker_.join();
}

absl::Status StreamHub::Add(const std::shared_ptr<Stream>& stream) {
  absl::MutexLock lock(&mutex_);
  if (environment_->draining) return Draining();
  if (static_cast<int>(streams_.size()) >= limits_.max_streams) {
    return WithErrorInfo(
        absl::ResourceExhaustedError(absl::StrCat("the node serves ", limits_.max_streams,
                                                  " streams already; try again later")),
        "TOO_MANY_STREAMS", {{"max_streams", absl::StrCat(limits_.max_streams)}});
  }
  streams_[stream.get()] = stream;
  return absl::OkStatus();
}

void StreamHub::Remove(const Stream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void StreamHub::Drain(absl::Duration patience) {
  environment_->draining = true;
  ForEach([](Stream* stream, absl::Duration) { stream->Wake(); });
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &StreamHub::NoneLeft), patience);
}

void StreamHub::ForEach(void (*visit)(Stream*, absl::Duration)) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, weak] : streams_) {
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
    }
  }
  const absl::Duration now = environment_->clock->Monotonic();
  for (const auto& stream : streams) visit(stream.get(), now);
}

void StreamHub::RunTicker() {
  constexpr int kTicksPerInterval = 4;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_),
                                  limits_.idle_interval / kTicksPerInterval)) {
        return;
      }
    }
    ForEach([](Stream* stream, absl::Duration now) { stream->OnTick(now); });
  }
}

}  // namespace accel::daemon
