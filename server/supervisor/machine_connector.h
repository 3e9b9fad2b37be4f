#ifndef ACCEL_SERVER_SUPERVISOR_MACHINE_CONNECTOR_H_
#define ACCEL_SERVER_SUPERVISOR_MACHINE_CONNECTOR_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "core/base/fd.h"
#include "core/base/ip_address.h"
#include "server/supervisor/event_loop.h"

namespace accel::supervisor {

// Connects to a port that may not be listened on yet: tries again until it succeeds or the time is
// over. For the loop's thread.
class MachineConnector {
 public:
  using OnConnected = std::function<void(Fd socket)>;
  // What the last try came to.
  using OnGivenUp = std::function<void(const std::string& why)>;

  explicit MachineConnector(EventLoop& loop) : loop_(loop) {}
  ~MachineConnector() { Stop(); }
  MachineConnector(const MachineConnector&) = delete;
  MachineConnector& operator=(const MachineConnector&) = delete;

  // Calls one of the two, once, from the loop.
  void Start(const IpAddress& address, int port, absl::Duration timeout, OnConnected on_connected,
             OnGivenUp on_given_up);
  // Calls neither any more.
  void Stop();

 private:
  void Try();
  void OnWritable();
  void TryAgain(int error);

  EventLoop& loop_;
  IpAddress address_;
  int port_ = 0;
  OnConnected on_connected_;
  OnGivenUp on_given_up_;
  Fd socket_;
  EventLoop::TimerId retry_ = 0;
  EventLoop::TimerId deadline_ = 0;
  std::string last_error_ = "no answer";
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_MACHINE_CONNECTOR_H_
