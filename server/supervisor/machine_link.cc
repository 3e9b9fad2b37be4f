#include "server/supervisor/machine_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "core/base/message_channel.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

constexpr int kIdleSeconds = 10;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 4;
constexpr int kUnansweredMs = 30'000;

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

}  // namespace

MachineLink::MachineLink(EventLoop& loop, Fd socket, OnMessage on_message, OnEnd on_end)
    : loop_(loop),
      connection_(std::move(socket), MessageChannel::kMaxMessageBytes),
      on_message_(std::move(on_message)),
      on_end_(std::move(on_end)) {
  const int fd = connection_.fd();
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnansweredMs);
  loop_.Watch(fd, POLLIN, [this](short revents) { OnReady(revents); });
}

MachineLink::~MachineLink() {
  if (!ended_) loop_.Unwatch(connection_.fd());
}

void MachineLink::Send(const google::protobuf::MessageLite& message) {
  if (ended_ || closing_) return;
  if (const absl::Status status = connection_.Send(message); !status.ok()) {
    spdlog::warn("cannot send to another machine: {}", status.ToString());
    return;
  }
  loop_.SetEvents(connection_.fd(), connection_.has_unsent() ? POLLIN | POLLOUT : POLLIN);
}

void MachineLink::Close() {
  closing_ = true;
  if (!ended_ && !connection_.has_unsent()) connection_.CloseOutput();
}

void MachineLink::OnReady(short revents) {
  if ((revents & POLLOUT) != 0) {
    // The end of a peer that is gone is seen by reading.
    if (!connection_.Flush().ok() || !connection_.has_unsent()) {
      loop_.SetEvents(connection_.fd(), POLLIN);
      if (closing_) connection_.CloseOutput();
    }
  }
  if ((revents & ~POLLOUT) == 0) return;
  const absl::Status status =
      connection_.ReadAvailable([this](absl::string_view frame) { return on_message_(frame); });
  if (status.ok()) return;
  ended_ = true;
  loop_.Unwatch(connection_.fd());
  // The callback may destroy this.
  const OnEnd on_end = on_end_;
  on_end(status);
}

}  // namespace accel::supervisor
