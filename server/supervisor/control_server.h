#ifndef ACCEL_SERVER_SUPERVISOR_CONTROL_SERVER_H_
#define ACCEL_SERVER_SUPERVISOR_CONTROL_SERVER_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"
#include "server/supervisor/event_loop.h"
#include "server/supervisor/message_connection.h"

namespace accel::supervisor {

// `control.sock`, where the daemon watches and commands the job. A client that reads slowly gets
// the newest message once it has read the one before, and costs no memory.
class ControlServer {
 public:
  // What a new client is told.
  using Snapshot = std::function<accel::internal::v1::FromSupervisor()>;
  using OnCommand = std::function<void(const accel::internal::v1::ToSupervisor&)>;

  // Listens on `directory`/control.sock, owner-only, in place of a socket that an earlier process
  // left: the caller holds the folder's lock. `loop` must outlive the result.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Listen(
      EventLoop& loop, const std::filesystem::path& directory, Snapshot snapshot,
      OnCommand on_command);

  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // Sends the newest snapshot to every client.
  void Publish();

  // Whether a client has not been sent the newest snapshot in full.
  bool has_unsent() const;

 private:
  struct Client {
    std::unique_ptr<MessageConnection> connection;
    // Whether a snapshot waits for the one before to be sent.
    bool stale = false;
  };

  ControlServer(EventLoop& loop, Fd socket, std::filesystem::path path, Snapshot snapshot,
                OnCommand on_command);

  void OnConnect();
  void OnReady(int fd, short revents);
  void Update(Client& client);
  absl::Status ReadCommands(Client& client);
  void Drop(int fd, const absl::Status& why);

  EventLoop& loop_;
  const Fd socket_;
  const std::filesystem::path path_;
  const Snapshot snapshot_;
  const OnCommand on_command_;
  // By descriptor.
  std::map<int, Client> clients_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_CONTROL_SERVER_H_
