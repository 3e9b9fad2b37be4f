#include "core/base/ip_address.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

IpAddress Address(absl::string_view text) { return IpAddress::Parse(text).value(); }

bool Contains(absl::string_view network, absl::string_view address) {
  return IpNetwork::Parse(network).value().Contains(Address(address));
}

TEST(IpAddressTest, ReadsBothFamiliesAndNoNames) {
  EXPECT_EQ(Address("10.0.0.1").ToString(), "10.0.0.1");
  EXPECT_EQ(Address("::1").ToString(), "::1");
  EXPECT_EQ(Address("localhost").ToString(), "127.0.0.1");
  for (const char* text : {"", "10.0.0", "node7", "10.0.0.1:80", "[::1]", "fe80::1%eth0"}) {
    EXPECT_FALSE(IpAddress::Parse(text).ok()) << text;
  }
}

TEST(IpAddressTest, ComesBackFromASocketsName) {
  for (const char* text : {"10.1.2.3", "2001:db8::7"}) {
    sockaddr_storage name;
    EXPECT_GT(Address(text).ToSockaddr(80, &name), 0u);
    EXPECT_EQ(IpAddress::FromSockaddr(name)->ToString(), text);
  }
}

TEST(IpNetworkTest, ContainsWhatBeginsWithTheSameBits) {
  EXPECT_TRUE(Contains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(Contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(Contains("192.168.4.128/25", "192.168.4.200"));
  EXPECT_FALSE(Contains("192.168.4.128/25", "192.168.4.100"));
  EXPECT_TRUE(Contains("0.0.0.0/0", "8.8.8.8"));
  EXPECT_FALSE(Contains("0.0.0.0/0", "::1"));
  EXPECT_TRUE(Contains("10.0.0.1", "10.0.0.1"));
  EXPECT_FALSE(Contains("10.0.0.1", "10.0.0.2"));
  EXPECT_TRUE(Contains("2001:db8::/32", "2001:db8::7"));
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/x", "/8", "::/129"}) {
    EXPECT_FALSE(IpNetwork::Parse(text).ok()) << text;
  }
}

TEST(RendezvousAllowedTest, LoopbackAndTheOperatorsNetworks) {
  EXPECT_TRUE(RendezvousAllowed(Address("127.3.2.1"), {}));
  EXPECT_TRUE(RendezvousAllowed(Address("::1"), {}));
  EXPECT_FALSE(RendezvousAllowed(Address("10.0.0.1"), {}));
  EXPECT_FALSE(RendezvousAllowed(Address("0.0.0.0"), {}));
  EXPECT_TRUE(RendezvousAllowed(Address("10.0.0.1"), {"192.168.0.0/16", "10.0.0.0/24"}));
}

}  // namespace
}  // namespace accel
