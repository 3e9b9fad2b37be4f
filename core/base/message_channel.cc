#include "core/base/message_channel.h"

#include <endian.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel {

absl::Status MessageChannel::Send(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > kMaxMessageBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("message of ", size, " bytes; at most ", kMaxMessageBytes, " can be sent"));
  }
  std::string frame(sizeof(uint32_t), '\0');
  const uint32_t prefix = htole32(static_cast<uint32_t>(size));
  std::memcpy(frame.data(), &prefix, sizeof(prefix));
  message.AppendToString(&frame);
  absl::MutexLock lock(&send_mutex_);
  absl::string_view rest = frame;
  while (!rest.empty()) {
    const ssize_t sent = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return absl::UnavailableError(absl::StrCat("peer is gone: ", strerror(errno)));
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status MessageChannel::Receive(google::protobuf::MessageLite* message) {
  uint32_t prefix = 0;
  ACCEL_RETURN_IF_ERROR(
      ReadExactly(reinterpret_cast<char*>(&prefix), sizeof(prefix), /*at_start=*/true));
  const size_t size = le32toh(prefix);
  if (size > kMaxMessageBytes) {
    return absl::DataLossError(absl::StrCat("message announces ", size, " bytes"));
  }
  std::string contents(size, '\0');
  ACCEL_RETURN_IF_ERROR(ReadExactly(contents.data(), size, /*at_start=*/false));
  if (!message->ParseFromString(contents)) {
    return absl::DataLossError(absl::StrCat("not a message of type ", message->GetTypeName()));
  }
  return absl::OkStatus();
}

absl::Status MessageChannel::ReadExactly(char* data, size_t size, bool at_start) {
  size_t have = 0;
  while (have < size) {
    const ssize_t got = recv(socket_.get(), data + have, size - have, 0);
    if (got < 0 && errno == EINTR) continue;
    // A peer that was killed with unread data resets the connection: its end all the same.
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      if (at_start && have == 0) return absl::OutOfRangeError("peer closed the channel");
      return absl::DataLossError("channel broke off in a message");
    }
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot receive");
    have += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

void MessageChannel::Shutdown() { shutdown(socket_.get(), SHUT_RDWR); }

absl::StatusOr<std::pair<Fd, Fd>> MakeSocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair");
  }
  return std::pair<Fd, Fd>(Fd(fds[0]), Fd(fds[1]));
}

}  // namespace accel
