#include "server/supervisor/message_connection.h"

#include <endian.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::supervisor {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// Per call of ReadAvailable.
constexpr size_t kMaxReadBytes = 1 << 20;

}  // namespace

MessageConnection::MessageConnection(Fd socket, size_t max_message_bytes)
    : socket_(std::move(socket)), max_message_bytes_(max_message_bytes) {}

absl::Status MessageConnection::ReadAvailable(OnFrame on_frame) {
  char chunk[kReadBytes];
  for (size_t total = 0; total < kMaxReadBytes;) {
    const ssize_t got = recv(socket_.get(), chunk, sizeof(chunk), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::OkStatus();
    // A peer that died with unread data resets the connection: its end all the same.
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
      if (input_.empty()) return absl::OutOfRangeError("peer closed the connection");
      return absl::UnavailableError("connection broke off in a message");
    }
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot receive");
    input_.append(chunk, static_cast<size_t>(got));
    total += static_cast<size_t>(got);
    ACCEL_RETURN_IF_ERROR(TakeFrames(on_frame));
  }
  return absl::OkStatus();
}

absl::Status MessageConnection::TakeFrames(OnFrame on_frame) {
  absl::string_view rest = input_;
  absl::Status status;
  uint32_t prefix = 0;
  while (status.ok() && rest.size() >= sizeof(prefix)) {
    std::memcpy(&prefix, rest.data(), sizeof(prefix));
    const size_t size = le32toh(prefix);
    if (size > max_message_bytes_) {
      status = absl::DataLossError(
          absl::StrCat("message announces ", size, " bytes; at most ", max_message_bytes_));
      break;
    }
    if (rest.size() < sizeof(prefix) + size) break;
    status = on_frame(rest.substr(sizeof(prefix), size));
    rest.remove_prefix(sizeof(prefix) + size);
  }
  input_.erase(0, input_.size() - rest.size());
  return status;
}

absl::Status MessageConnection::Send(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size + output_.size() > max_message_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(size + output_.size(), " bytes to send; at most ", max_message_bytes_));
  }
  const uint32_t prefix = htole32(static_cast<uint32_t>(size));
  output_.append(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
  message.AppendToString(&output_);
  return Flush();
}

absl::Status MessageConnection::Flush() {
  size_t done = 0;
  absl::Status status;
  while (done < output_.size()) {
    const ssize_t sent = send(socket_.get(), output_.data() + done, output_.size() - done,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        status = absl::UnavailableError(absl::StrCat("peer is gone: ", strerror(errno)));
      }
      break;
    }
    done += static_cast<size_t>(sent);
  }
  output_.erase(0, done);
  return status;
}

void MessageConnection::CloseOutput() { shutdown(socket_.get(), SHUT_WR); }

}  // namespace accel::supervisor
