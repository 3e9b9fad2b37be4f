#include "server/supervisor/rendezvous.h"

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::JobLaunch;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

JobLaunch Launch(const std::string& init_method) {
  JobLaunch launch;
  launch.mutable_job()
      ->mutable_resolved_accelerator()
      ->mutable_init_process_group_kwargs()
      ->set_init_method(init_method);
  return launch;
}

IpAddress Loopback() { return *IpAddress::Parse("127.0.0.1"); }

TEST(Rendezvous, WithoutAMethodTheStoreIsOnTheMachinesAddress) {
  const auto rendezvous = Rendezvous::Open(JobLaunch(), Loopback());
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
  EXPECT_EQ(rendezvous->host(), "127.0.0.1");
  EXPECT_GT(rendezvous->port(), 0);
  EXPECT_GE(rendezvous->listen_fd(), 0);
  EXPECT_THAT(rendezvous->file().string(), IsEmpty());
  EXPECT_THAT(RendezvousEnvironment(JobLaunch(), "127.0.0.1", 1), IsEmpty());
}

TEST(Rendezvous, TcpNamesAddressAndPort) {
  const auto any = Rendezvous::Open(Launch("tcp://127.0.0.2:0"), Loopback());
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(any->host(), "127.0.0.2");
  const JobLaunch taken = Launch(absl::StrCat("tcp://127.0.0.2:", any->port()));
  const auto second = Rendezvous::Open(taken, Loopback());
  EXPECT_THAT(second.status().message(),
              HasSubstr(absl::StrCat("cannot listen on 127.0.0.2 port ", any->port())));
}

TEST(Rendezvous, EnvironmentOfTheNodesOperatorIsUsed) {
  JobLaunch launch = Launch("env://");
  (*launch.mutable_worker_environment())["MASTER_ADDR"] = "127.0.0.3";
  const auto rendezvous = Rendezvous::Open(launch, Loopback());
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
  EXPECT_EQ(rendezvous->host(), "127.0.0.3");
  EXPECT_THAT(RendezvousEnvironment(launch, rendezvous->host(), 7),
              UnorderedElementsAre(Pair("MASTER_ADDR", "127.0.0.3"), Pair("MASTER_PORT", "7")));
  (*launch.mutable_worker_environment())["MASTER_PORT"] = "many";
  EXPECT_EQ(Rendezvous::Open(launch, Loopback()).status().message(), "MASTER_PORT is \"many\"");
}

TEST(Rendezvous, AFileIsMadeAndRemovedAndNeverUsedAgain) {
  const TemporaryFolder root;
  JobLaunch launch = Launch("file:///team/meet");
  launch.set_rendezvous_root(root.path().string());
  const std::filesystem::path file = root.path() / "team/meet";
  {
    const auto rendezvous = Rendezvous::Open(launch, Loopback());
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    EXPECT_EQ(rendezvous->file(), file);
    EXPECT_EQ(rendezvous->listen_fd(), -1);
    EXPECT_TRUE(std::filesystem::exists(file));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  std::ofstream(file) << "left";
  EXPECT_THAT(Rendezvous::Open(launch, Loopback()).status().message(),
              HasSubstr("team/meet exists"));
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace accel::supervisor
