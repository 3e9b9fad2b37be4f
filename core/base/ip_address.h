#ifndef ACCEL_CORE_BASE_IP_ADDRESS_H_
#define ACCEL_CORE_BASE_IP_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace accel {

// An IPv4 or IPv6 address, without a port or a zone.
class IpAddress {
 public:
  // Reads a numeric address, or "localhost", which is 127.0.0.1. INVALID_ARGUMENT for anything
  // else; no name is looked up.
  static absl::StatusOr<IpAddress> Parse(absl::string_view text);
  // The address of a socket's name. INVALID_ARGUMENT for another family.
  static absl::StatusOr<IpAddress> FromSockaddr(const sockaddr_storage& address);

  bool is_v6() const { return v6_; }
  bool is_loopback() const;
  std::string ToString() const;
  // Fills `address` in and returns its length.
  socklen_t ToSockaddr(int port, sockaddr_storage* address) const;

 private:
  friend class IpNetwork;

  bool v6_ = false;
  // The first 4 count for IPv4.
  std::array<uint8_t, 16> bytes_{};
};

// Addresses that begin with the same bits.
class IpNetwork {
 public:
  // Reads `<ip>/<bits>`, or one address. INVALID_ARGUMENT for anything else.
  static absl::StatusOr<IpNetwork> Parse(absl::string_view text);

  bool Contains(const IpAddress& address) const;

 private:
  IpAddress base_;
  int bits_ = 0;
};

// Whether the rendezvous of a job may lie at `address`: loopback always may, any other address
// where one of `networks`, texts that IpNetwork::Parse takes, contains it.
bool RendezvousAllowed(const IpAddress& address, const std::vector<std::string>& networks);

}  // namespace accel

#endif  // ACCEL_CORE_BASE_IP_ADDRESS_H_
