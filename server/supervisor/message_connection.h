#ifndef ACCEL_SERVER_SUPERVISOR_MESSAGE_CONNECTION_H_
#define ACCEL_SERVER_SUPERVISOR_MESSAGE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"
#include "google/protobuf/message_lite.h"

namespace accel::supervisor {

// The other side of a MessageChannel for an event loop: the same frames, and no call ever blocks.
// Not thread-safe.
class MessageConnection {
 public:
  using OnFrame = absl::FunctionRef<absl::Status(absl::string_view frame)>;

  // Takes a stream socket. A longer message ends the connection before memory is taken for it.
  MessageConnection(Fd socket, size_t max_message_bytes);

  int fd() const { return socket_.get(); }

  // Reads what is there, up to a bound that keeps other descriptors from starving, and hands over
  // each complete message. OUT_OF_RANGE at the peer's end, UNAVAILABLE when that comes within a
  // message, DATA_LOSS when a message is too long; otherwise the first error of `on_frame`. After
  // an error nothing more can be read.
  absl::Status ReadAvailable(OnFrame on_frame);

  // Queues a message and sends what can be sent now. UNAVAILABLE when the peer is gone,
  // RESOURCE_EXHAUSTED when it has not read the last `max_message_bytes`.
  absl::Status Send(const google::protobuf::MessageLite& message);

  // Goes on with what Send could not send.
  absl::Status Flush();
  bool has_unsent() const { return !output_.empty(); }

  // The peer reads end of file; what it sends can still be read.
  void CloseOutput();

 private:
  absl::Status TakeFrames(OnFrame on_frame);

  const Fd socket_;
  const size_t max_message_bytes_;
  std::string input_;
  std::string output_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_MESSAGE_CONNECTION_H_
