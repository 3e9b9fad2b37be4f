#include "server/daemon/options.h"

#include <sys/socket.h>

#include <fstream>

#include "core/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/daemon/grpc_status.h"
#include "tests/unit/daemon/temp_dir.h"

namespace accel::daemon {
namespace {

using testing::HasSubstr;

class OptionsTest : public testing::Test {
 protected:
  CommandLine Parse(std::vector<std::string> flags) {
    for (const char* const flag : {"--supervisor=/bin/true", "--worker=/bin/true"}) {
      flags.push_back(flag);
    }
    std::vector<const char*> argv = {"acceld"};
    for (const std::string& flag : flags) argv.push_back(flag.c_str());
    return ParseCommandLine(static_cast<int>(argv.size()), argv.data(), "/nowhere");
  }
  void ExpectRefused(const std::vector<std::string>& flags, const std::string& text) {
    testing::internal::CaptureStderr();
    const CommandLine parsed = Parse(flags);
    const std::string output = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(parsed.options.has_value());
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_THAT(output, HasSubstr(text));
  }

  TempDir dir_;
};

TEST_F(OptionsTest, Defaults) {
  const CommandLine parsed = Parse({"--state_dir=/tmp/s"});
  ASSERT_TRUE(parsed.options.has_value());
  EXPECT_EQ(parsed.options->listen.at(0).ToString(), "unix:/tmp/s/acceld.sock");
  EXPECT_EQ(parsed.options->metrics_address->ToString(), "127.0.0.1:9464");
  EXPECT_GE(parsed.options->max_world_size, 2);
  EXPECT_EQ(parsed.options->max_ranks, parsed.options->max_world_size);
}

TEST_F(OptionsTest, FlagsMayBeRepeated) {
  const CommandLine parsed =
      Parse({"--listen=127.0.0.1:0", "--listen=unix:/tmp/a.sock",
             "--data_root=data=" + dir_.path().string(), "--data_root=tmp=/tmp",
             "--metrics_address=off", "--worker_env=A=b=c", "--max_world_size=3", "--max_ranks=5"});
  ASSERT_TRUE(parsed.options.has_value());
  EXPECT_EQ(parsed.options->listen.size(), 2u);
  EXPECT_EQ(parsed.options->data_roots.at("data"), dir_.path());
  EXPECT_FALSE(parsed.options->metrics_address.has_value());
  EXPECT_EQ(parsed.options->worker_env.at("A"), "b=c");
  EXPECT_EQ(parsed.options->max_ranks, 5);
}

TEST_F(OptionsTest, ConfigurationFileHoldsTheSameOptions) {
  const std::filesystem::path file = dir_.path() / "acceld.conf";
  std::ofstream(file) << "state_dir = \"/tmp/from-file\"\n"
                      << "listen = [\"127.0.0.1:0\", \"unix:/tmp/b.sock\"]\n"
                      << "max_queued_jobs = 3\n";
  const CommandLine parsed = Parse({"--config=" + file.string(), "--max_queued_jobs=4"});
  ASSERT_TRUE(parsed.options.has_value());
  EXPECT_EQ(parsed.options->state_dir, "/tmp/from-file");
  EXPECT_EQ(parsed.options->listen.size(), 2u);
  EXPECT_EQ(parsed.options->max_queued_jobs, 4);
}

TEST_F(OptionsTest, MistakesAreNamed) {
  ExpectRefused({"--listen=0.0.0.0:50051"}, "TLS and tokens");
  ExpectRefused({"--listen=192.168.1.2:1"}, "192.168.1.2");
  ExpectRefused({"--listen=[::]:1"}, "loopback");
  ExpectRefused({"--metrics_address=0.0.0.0:1"}, "loopback");
  ExpectRefused({"--metrics_address=unix:/tmp/x"}, "metrics_address");
  ExpectRefused({"--listen=127.0.0.1:99999"}, "0 to 65535");
  ExpectRefused({"--listen=unix:relative"}, "absolute");
  ExpectRefused({"--state_dir=/tmp/" + std::string(120, 'x')}, "at most 107");
  ExpectRefused({"--data_root=data"}, "name=value");
  ExpectRefused({"--data_root=data=/does/not/exist"}, "existing folder");
  ExpectRefused({"--data_root=a/b=/tmp"}, "letters");
  ExpectRefused({"--max_world_size=4", "--max_ranks=2"}, "at least max_world_size");
  ExpectRefused({"--max_world_size=0"}, "max_world_size");
  ExpectRefused({"--unknown"}, "unknown");
  ExpectRefused({"--supervisor=/nowhere/x"}, "supervisor");
}

TEST(AddressTest, RoundTrips) {
  for (const char* const text : {"unix:/run/a.sock", "127.0.0.1:80", "[::1]:0"}) {
    EXPECT_EQ(ParseAddress(text)->ToString(), text);
  }
  EXPECT_EQ(ParseAddress("localhost:1")->ToString(), "127.0.0.1:1");
}

TEST(AddressTest, FileThatIsNoSocketIsLeftAlone) {
  TempDir dir;
  const std::filesystem::path file = dir.path() / "precious";
  std::ofstream(file) << "data";
  EXPECT_EQ(ReasonOf(ProbeAddress(*ParseAddress("unix:" + file.string()))), kReasonAddressInUse);
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_TRUE(ProbeAddress(*ParseAddress("unix:" + (dir.path() / "new").string())).ok());
}

}  // namespace
}  // namespace accel::daemon
