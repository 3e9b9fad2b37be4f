#include "server/supervisor/rendezvous.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/config/process_group_options.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::JobLaunch;
using config::InitMethod;

constexpr char kAddressVariable[] = "MASTER_ADDR";
constexpr char kPortVariable[] = "MASTER_PORT";

std::optional<InitMethod> MethodOf(const JobLaunch& launch) {
  const auto& kwargs = launch.job().resolved_accelerator().init_process_group_kwargs();
  if (!kwargs.has_init_method()) return std::nullopt;
  auto method = config::ParseInitMethod(kwargs.init_method());
  if (!method.ok()) return std::nullopt;
  return *std::move(method);
}

std::string Variable(const JobLaunch& launch, const char* name) {
  const auto found = launch.worker_environment().find(name);
  return found != launch.worker_environment().end() ? found->second : "";
}

// Address and port of `env://`: what the node's operator gives the workers, else `address` and any.
absl::Status ReadEnvironment(const JobLaunch& launch, IpAddress* address, int* port) {
  if (const std::string text = Variable(launch, kAddressVariable); !text.empty()) {
    ACCEL_ASSIGN_OR_RETURN(*address, IpAddress::Parse(text));
  }
  const std::string text = Variable(launch, kPortVariable);
  if (!text.empty() && (!absl::SimpleAtoi(text, port) || *port < 0 || *port > 65535)) {
    return absl::InvalidArgumentError(absl::StrCat("MASTER_PORT is \"", text, "\""));
  }
  return absl::OkStatus();
}

absl::Status CreateStoreFile(const fs::path& path) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path.parent_path()));
  const Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.valid()) return absl::OkStatus();
  if (errno != EEXIST) return ErrnoStatus("cannot create", path, errno);
  return absl::FailedPreconditionError(
      absl::StrCat("init_method: ", path.string(),
                   " exists: another job meets there, or one that was killed left it; remove it or "
                   "name another file"));
}

}  // namespace

absl::StatusOr<ListeningSocket> ListenOn(const IpAddress& address, int port) {
  ListeningSocket result;
  result.socket.Reset(socket(address.is_v6() ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!result.socket.valid()) return absl::ErrnoToStatus(errno, "cannot make a socket");
  const int on = 1;
  setsockopt(result.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage name{};
  socklen_t length = address.ToSockaddr(port, &name);
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  if (bind(result.socket.get(), generic, length) != 0 ||
      listen(result.socket.get(), SOMAXCONN) != 0 ||
      getsockname(result.socket.get(), generic, &length) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot listen on ", address.ToString(), " port ", port));
  }
  // sin_port and sin6_port lie at the same place.
  result.port = ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
  return result;
}

absl::StatusOr<Rendezvous> Rendezvous::Open(const JobLaunch& launch, const IpAddress& address) {
  const std::optional<InitMethod> method = MethodOf(launch);
  Rendezvous rendezvous;
  if (method.has_value() && method->kind == InitMethod::Kind::kFile) {
    const fs::path file = RendezvousFile(launch);
    ACCEL_RETURN_IF_ERROR(CreateStoreFile(file));
    rendezvous.file_ = file;
    return rendezvous;
  }
  IpAddress host = address;
  int port = 0;
  if (method.has_value() && method->kind == InitMethod::Kind::kTcp) {
    ACCEL_ASSIGN_OR_RETURN(host, IpAddress::Parse(method->host));
    port = method->port;
  } else if (method.has_value()) {
    ACCEL_RETURN_IF_ERROR(ReadEnvironment(launch, &host, &port));
  }
  ACCEL_ASSIGN_OR_RETURN(rendezvous.listening_, ListenOn(host, port));
  rendezvous.host_ = host.ToString();
  return rendezvous;
}

Rendezvous::Rendezvous(Rendezvous&& other) noexcept
    : host_(std::move(other.host_)),
      listening_(std::move(other.listening_)),
      file_(std::exchange(other.file_, {})) {}

Rendezvous::~Rendezvous() {
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
}

fs::path RendezvousFile(const JobLaunch& launch) {
  const std::optional<InitMethod> method = MethodOf(launch);
  if (!method.has_value() || method->kind != InitMethod::Kind::kFile) return {};
  return fs::path(launch.rendezvous_root()) / method->file;
}

std::map<std::string, std::string> RendezvousEnvironment(const JobLaunch& launch,
                                                         const std::string& host, int port) {
  const std::optional<InitMethod> method = MethodOf(launch);
  if (!method.has_value() || method->kind != InitMethod::Kind::kEnv) return {};
  return {{kAddressVariable, host}, {kPortVariable, absl::StrCat(port)}};
}

}  // namespace accel::supervisor
