#include "server/supervisor/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::FromSupervisor;
using accel::internal::v1::ToSupervisor;

constexpr char kSocketName[] = "control.sock";
// Commands and snapshots are small; a snapshot grows with attempts and ranks.
constexpr size_t kMaxMessageBytes = 4 << 20;
constexpr size_t kMaxClients = 16;

// A socket's path is limited to 107 bytes, a folder's is not: the folder is reached through its
// descriptor.
absl::Status BindIn(int socket, const fs::path& directory) {
  const Fd folder(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return ErrnoStatus("cannot open", directory, errno);
  const std::string path = absl::StrCat("/proc/self/fd/", folder.get(), "/", kSocketName);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("cannot remove", directory / kSocketName, errno);
  }
  // The socket's file gets the rights of its descriptor, less the umask: never open to others, not
  // even for a moment.
  if (fchmod(socket, 0600) != 0 ||
      bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus("cannot bind", directory / kSocketName, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Listen(EventLoop& loop,
                                                                     const fs::path& directory,
                                                                     Snapshot snapshot,
                                                                     OnCommand on_command) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return absl::ErrnoToStatus(errno, "cannot make the control socket");
  ACCEL_RETURN_IF_ERROR(BindIn(socket.get(), directory));
  const fs::path path = directory / kSocketName;
  if (listen(socket.get(), static_cast<int>(kMaxClients)) != 0) {
    return ErrnoStatus("cannot listen on", path, errno);
  }
  return std::unique_ptr<ControlServer>(
      new ControlServer(loop, std::move(socket), path, std::move(snapshot), std::move(on_command)));
}

ControlServer::ControlServer(EventLoop& loop, Fd socket, fs::path path, Snapshot snapshot,
                             OnCommand on_command)
    : loop_(loop),
      socket_(std::move(socket)),
      path_(std::move(path)),
      snapshot_(std::move(snapshot)),
      on_command_(std::move(on_command)) {
  loop_.Watch(socket_.get(), POLLIN, [this](short) { OnConnect(); });
}

ControlServer::~ControlServer() {
  for (const auto& [fd, client] : clients_) loop_.Unwatch(fd);
  loop_.Unwatch(socket_.get());
  unlink(path_.c_str());
}

void ControlServer::OnConnect() {
  Fd accepted(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!accepted.valid()) return;
  if (clients_.size() >= kMaxClients) {
    spdlog::warn("control: more than {} clients, refused one", kMaxClients);
    return;
  }
  const int fd = accepted.get();
  Client& client = clients_[fd];
  client.connection = std::make_unique<MessageConnection>(std::move(accepted), kMaxMessageBytes);
  loop_.Watch(fd, POLLIN, [this, fd](short revents) { OnReady(fd, revents); });
  Update(client);
}

void ControlServer::OnReady(int fd, short revents) {
  Client& client = clients_.at(fd);
  absl::Status status;
  if ((revents & ~POLLOUT) != 0) status = ReadCommands(client);
  if (status.ok() && (revents & POLLOUT) != 0) {
    status = client.connection->Flush();
    if (status.ok() && !client.connection->has_unsent()) {
      loop_.SetEvents(fd, POLLIN);
      if (client.stale) Update(client);
    }
  }
  if (!status.ok()) Drop(fd, status);
}

absl::Status ControlServer::ReadCommands(Client& client) {
  return client.connection->ReadAvailable([this](absl::string_view frame) {
    ToSupervisor command;
    if (!command.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
      return absl::DataLossError("not a message to a supervisor");
    }
    on_command_(command);
    return absl::OkStatus();
  });
}

void ControlServer::Update(Client& client) {
  MessageConnection& connection = *client.connection;
  if (connection.has_unsent()) {
    client.stale = true;
  } else {
    client.stale = false;
    absl::Status status = connection.Send(snapshot_());
    // A client that is gone is dropped once its last commands are read.
    if (!status.ok() && !absl::IsUnavailable(status)) {
      spdlog::error("control: cannot send: {}", status.ToString());
    }
  }
  loop_.SetEvents(connection.fd(), connection.has_unsent() ? POLLIN | POLLOUT : POLLIN);
}

void ControlServer::Publish() {
  for (auto& [fd, client] : clients_) Update(client);
}

bool ControlServer::has_unsent() const {
  for (const auto& [fd, client] : clients_) {
    if (client.connection->has_unsent()) return true;
  }
  return false;
}

void ControlServer::Drop(int fd, const absl::Status& why) {
  auto it = clients_.find(fd);
  if (it == clients_.end()) return;
  if (!absl::IsOutOfRange(why)) spdlog::warn("control: dropped a client: {}", why.ToString());
  loop_.Unwatch(fd);
  clients_.erase(it);
}

}  // namespace accel::supervisor
