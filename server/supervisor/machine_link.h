#ifndef ACCEL_SERVER_SUPERVISOR_MACHINE_LINK_H_
#define ACCEL_SERVER_SUPERVISOR_MACHINE_LINK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"
#include "google/protobuf/message_lite.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/message_connection.h"

namespace accel::supervisor {

// A TCP connection between the supervisors of two machines of a job, served by the loop. Nothing
// here blocks. A machine that is cut off without a word is noticed after half a minute.
class MachineLink {
 public:
  // A message has come; an error ends the link.
  using OnMessage = std::function<absl::Status(absl::string_view frame)>;
  // The link has ended and is of no more use; the callback may destroy it. OUT_OF_RANGE when the
  // peer closed it.
  using OnEnd = std::function<void(const absl::Status& why)>;

  // Takes a connected socket. `loop` must outlive this.
  MachineLink(EventLoop& loop, Fd socket, OnMessage on_message, OnEnd on_end);
  ~MachineLink();
  MachineLink(const MachineLink&) = delete;
  MachineLink& operator=(const MachineLink&) = delete;

  // A message to a peer that is gone is lost: the link's end is reported anyway.
  void Send(const google::protobuf::MessageLite& message);
  // The peer reads the end of the link after what was sent.
  void Close();

 private:
  void OnReady(short revents);

  EventLoop& loop_;
  MessageConnection connection_;
  const OnMessage on_message_;
  const OnEnd on_end_;
  bool ended_ = false;
  // Whether Close waits for the rest to be sent.
  bool closing_ = false;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_MACHINE_LINK_H_
