#ifndef ACCEL_CORE_BASE_MESSAGE_CHANNEL_H_
#define ACCEL_CORE_BASE_MESSAGE_CHANNEL_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/base/fd.h"
#include "google/protobuf/message_lite.h"

namespace accel {

// Protobuf messages over a stream socket: 32 bits of length, little endian, then the message. One
// thread may receive while any number send.
class MessageChannel {
 public:
  // Longest message that is sent or accepted.
  static constexpr size_t kMaxMessageBytes = 64 << 20;

  // Takes the socket, which must be in blocking mode.
  explicit MessageChannel(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Blocks until all is written. UNAVAILABLE when the peer is gone; never raises SIGPIPE.
  absl::Status Send(const google::protobuf::MessageLite& message) ABSL_LOCKS_EXCLUDED(send_mutex_);

  // Blocks for the next message. OUT_OF_RANGE at the peer's orderly end; DATA_LOSS when the
  // stream breaks off in a message or its contents are not of this type.
  absl::Status Receive(google::protobuf::MessageLite* message);

  // Wakes a blocked Receive and makes every later call fail.
  void Shutdown();

 private:
  absl::Status ReadExactly(char* data, size_t size, bool at_start);

  const Fd socket_;
  absl::Mutex send_mutex_;
};

// Two connected stream sockets, close-on-exec.
absl::StatusOr<std::pair<Fd, Fd>> MakeSocketPair();

}  // namespace accel

#endif  // ACCEL_CORE_BASE_MESSAGE_CHANNEL_H_
