#include "server/daemon/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/errors.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "server/daemon/exit_codes.h"

namespace accel::daemon {
namespace {

constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Refused(absl::string_view text, absl::string_view why) {
  return WithErrorInfo(absl::InvalidArgumentError(absl::StrCat("address \"", text, "\": ", why)),
                       kReasonUsage, {{"address", std::string(text)}});
}

absl::Status InUse(const Address& address) {
  return WithErrorInfo(
      absl::AlreadyExistsError(absl::StrCat("address ", address.ToString(), " is in use")),
      kReasonAddressInUse, {{"address", address.ToString()}});
}

absl::StatusOr<Address> ParseUnix(absl::string_view text, absl::string_view path) {
  if (!absl::StartsWith(path, "/")) return Refused(text, "the path must be absolute");
  if (path.size() > kMaxSocketPath) {
    return Refused(text, absl::StrCat("the path has ", path.size(), " bytes, at most ",
                                      kMaxSocketPath, " are allowed; choose a shorter state_dir"));
  }
  Address address;
  address.path = std::string(path);
  return address;
}

bool IsLoopback(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::Status ProbeUnix(const Address& address) {
  struct stat info;
  if (lstat(address.path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return WithErrorInfo(absl::AlreadyExistsError(absl::StrCat(
                             address.ToString(), " is a file that is no socket; remove it first")),
                         kReasonAddressInUse, {{"address", address.ToString()}});
  }
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), address.path.size());
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) {
    return InUse(address);
  }
  return absl::OkStatus();
}

struct SocketName {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketName NameOf(const Address& address) {
  SocketName name;
  if (absl::StrContains(address.host, ':')) {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&name.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(address.port));
    inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    name.length = sizeof(*v6);
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&name.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(address.port));
    inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr);
    name.length = sizeof(*v4);
  }
  return name;
}

absl::Status ProbeTcp(const Address& address) {
  const SocketName name = NameOf(address);
  Fd fd(socket(name.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  // As the servers do it, so that connections in TIME_WAIT do not count.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), name.get(), name.length) == 0) return absl::OkStatus();
  if (errno == EADDRINUSE) return InUse(address);
  return ErrnoStatus("cannot bind", address.ToString(), errno);
}

}  // namespace

std::string Address::ToString() const {
  if (is_unix()) return absl::StrCat("unix:", path);
  if (absl::StrContains(host, ':')) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  constexpr absl::string_view kAllowed = "must be unix:/path or 127.0.0.1:port";
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseUnix(text, rest);
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Refused(text, kAllowed);
  Address address;
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return Refused(text, kAllowed);
  }
  address.host = std::string(host == "localhost" ? "127.0.0.1" : host);
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return Refused(text, "the port must be 0 to 65535");
  }
  if (!IsLoopback(address.host)) {
    return Refused(text,
                   "only Unix sockets and loopback addresses are allowed: TLS and tokens, which "
                   "would have to guard any other address, are not implemented yet");
  }
  return address;
}

void TouchAddress(const Address& address) {
  const SocketName name = NameOf(address);
  const Fd fd(socket(name.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Refused where nobody listens any more.
  static_cast<void>(connect(fd.get(), name.get(), name.length));
}

absl::Status ProbeAddress(const Address& address) {
  return address.is_unix() ? ProbeUnix(address) : ProbeTcp(address);
}

}  // namespace accel::daemon
