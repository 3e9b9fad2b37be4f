#include "core/base/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel {

absl::StatusOr<IpAddress> IpAddress::Parse(absl::string_view text) {
  const std::string numeric(text == "localhost" ? "127.0.0.1" : text);
  IpAddress address;
  if (inet_pton(AF_INET, numeric.c_str(), address.bytes_.data()) == 1) return address;
  address.v6_ = true;
  if (inet_pton(AF_INET6, numeric.c_str(), address.bytes_.data()) == 1) return address;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no IPv4 or IPv6 address"));
}

absl::StatusOr<IpAddress> IpAddress::FromSockaddr(const sockaddr_storage& address) {
  IpAddress result;
  if (address.ss_family == AF_INET) {
    std::memcpy(result.bytes_.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
    return result;
  }
  if (address.ss_family != AF_INET6) return absl::InvalidArgumentError("not an internet address");
  result.v6_ = true;
  std::memcpy(result.bytes_.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  return result;
}

bool IpAddress::is_loopback() const {
  if (!v6_) return bytes_[0] == 127;
  return bytes_.back() == 1 &&
         std::all_of(bytes_.begin(), bytes_.end() - 1, [](uint8_t byte) { return byte == 0; });
}

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(v6_ ? AF_INET6 : AF_INET, bytes_.data(), text, sizeof(text));
}

socklen_t IpAddress::ToSockaddr(int port, sockaddr_storage* address) const {
  *address = {};
  if (!v6_) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(address);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&v4->sin_addr, bytes_.data(), 4);
    return sizeof(*v4);
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(address);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<uint16_t>(port));
  std::memcpy(&v6->sin6_addr, bytes_.data(), 16);
  return sizeof(*v6);
}

absl::StatusOr<IpNetwork> IpNetwork::Parse(absl::string_view text) {
  const size_t slash = text.find('/');
  IpNetwork network;
  ACCEL_ASSIGN_OR_RETURN(network.base_, IpAddress::Parse(text.substr(0, slash)));
  const int width = network.base_.is_v6() ? 128 : 32;
  network.bits_ = width;
  if (slash == absl::string_view::npos) return network;
  if (!absl::SimpleAtoi(text.substr(slash + 1), &network.bits_) || network.bits_ < 0 ||
      network.bits_ > width) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is no network, <ip>/<bits> with 0 to ", width, " bits"));
  }
  return network;
}

bool IpNetwork::Contains(const IpAddress& address) const {
  if (address.v6_ != base_.v6_) return false;
  for (int bit = 0; bit < bits_; ++bit) {
    const auto index = static_cast<size_t>(bit / 8);
    if (((address.bytes_[index] ^ base_.bytes_[index]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

bool RendezvousAllowed(const IpAddress& address, const std::vector<std::string>& networks) {
  if (address.is_loopback()) return true;
  return std::any_of(networks.begin(), networks.end(), [&](const std::string& text) {
    const auto network = IpNetwork::Parse(text);
    return network.ok() && network->Contains(address);
  });
}

}  // namespace accel
