#include "server/supervisor/machine_connector.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace accel::supervisor {
namespace {

constexpr absl::Duration kRetryInterval = absl::Milliseconds(200);

}  // namespace

void MachineConnector::Start(const IpAddress& address, int port, absl::Duration timeout,
                             OnConnected on_connected, OnGivenUp on_given_up) {
  address_ = address;
  port_ = port;
  on_connected_ = std::move(on_connected);
  on_given_up_ = std::move(on_given_up);
  deadline_ = loop_.RunAfter(timeout, [this] {
    Stop();
    on_given_up_(last_error_);
  });
  Try();
}

void MachineConnector::Stop() {
  if (socket_.valid()) loop_.Unwatch(socket_.get());
  socket_.Reset();
  loop_.Cancel(retry_);
  loop_.Cancel(deadline_);
}

void MachineConnector::Try() {
  socket_.Reset(
      socket(address_.is_v6() ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return TryAgain(errno);
  sockaddr_storage name{};
  const socklen_t length = address_.ToSockaddr(port_, &name);
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&name), length) != 0 &&
      errno != EINPROGRESS) {
    return TryAgain(errno);
  }
  loop_.Watch(socket_.get(), POLLOUT, [this](short) { OnWritable(); });
}

void MachineConnector::OnWritable() {
  loop_.Unwatch(socket_.get());
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return TryAgain(error);
  loop_.Cancel(deadline_);
  on_connected_(std::move(socket_));
}

void MachineConnector::TryAgain(int error) {
  last_error_ = strerror(error);
  socket_.Reset();
  retry_ = loop_.RunAfter(kRetryInterval, [this] { Try(); });
}

}  // namespace accel::supervisor
