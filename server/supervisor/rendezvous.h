#ifndef ACCEL_SERVER_SUPERVISOR_RENDEZVOUS_H_
#define ACCEL_SERVER_SUPERVISOR_RENDEZVOUS_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "core/base/fd.h"
#include "core/base/ip_address.h"

namespace accel::supervisor {

// A listening TCP socket and the port that it got.
struct ListeningSocket {
  Fd socket;
  int port = 0;
};

// Binds and listens; port 0 is any free one. Whoever needs the port gets the socket: none is
// chosen, closed and hoped for.
absl::StatusOr<ListeningSocket> ListenOn(const IpAddress& address, int port);

// Where the ranks of one attempt meet, as init_process_group_kwargs.init_method says.
class Rendezvous {
 public:
  // Binds the store's port, or creates its file, which must not exist: a file store keeps what an
  // earlier group wrote. `address` is the machine's for the store where the method names none.
  static absl::StatusOr<Rendezvous> Open(const accel::internal::v1::JobLaunch& launch,
                                         const IpAddress& address);

  // Removes the file.
  ~Rendezvous();
  Rendezvous(Rendezvous&& other) noexcept;
  Rendezvous& operator=(Rendezvous&&) = delete;

  // Empty for a file.
  const std::string& host() const { return host_; }
  int port() const { return listening_.port; }
  // -1 for a file.
  int listen_fd() const { return listening_.socket.valid() ? listening_.socket.get() : -1; }
  // Path of the file; empty for a TCP store.
  const std::filesystem::path& file() const { return file_; }

 private:
  Rendezvous() = default;

  std::string host_;
  ListeningSocket listening_;
  std::filesystem::path file_;
};

// Path on this machine of the file that init_method names; empty where it names none.
std::filesystem::path RendezvousFile(const accel::internal::v1::JobLaunch& launch);

// What `env://` means for the workers: MASTER_ADDR and MASTER_PORT. Empty for other methods.
std::map<std::string, std::string> RendezvousEnvironment(
    const accel::internal::v1::JobLaunch& launch, const std::string& host, int port);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_RENDEZVOUS_H_
