#include "core/config/process_group_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string WhyNot(const absl::Status& status) { return std::string(status.message()); }

TEST(ParseBackendTest, OneNameServesEachDeviceItCan) {
  EXPECT_THAT(*ParseBackend("gloo"), ElementsAre(Pair("cpu", "gloo"), Pair("cuda", "gloo")));
  EXPECT_THAT(*ParseBackend("nccl"), ElementsAre(Pair("cuda", "nccl")));
}

TEST(ParseBackendTest, AListMayBeInAnyOrder) {
  for (const char* text : {"cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo"}) {
    EXPECT_THAT(*ParseBackend(text), ElementsAre(Pair("cpu", "gloo"), Pair("cuda", "nccl")));
  }
  EXPECT_THAT(*ParseBackend("cpu:gloo"), ElementsAre(Pair("cpu", "gloo")));
}

TEST(ParseBackendTest, SaysWhatIsWrong) {
  for (const char* text : {"", "mpi", "cpu:nccl", "cpu:gloo,", "xpu:gloo", "gloo,nccl"}) {
    EXPECT_THAT(WhyNot(ParseBackend(text).status()),
                HasSubstr("allowed: gloo, nccl, cpu:gloo,cuda:nccl"))
        << text;
  }
  EXPECT_THAT(WhyNot(ParseBackend("cpu:gloo,cpu:gloo").status()),
              HasSubstr("two backends for cpu"));
}

TEST(ParseInitMethodTest, ReadsEachKind) {
  EXPECT_EQ(ParseInitMethod("env://")->kind, InitMethod::Kind::kEnv);
  const InitMethod tcp = *ParseInitMethod("tcp://10.0.0.1:29500");
  EXPECT_EQ(tcp.kind, InitMethod::Kind::kTcp);
  EXPECT_EQ(tcp.host, "10.0.0.1");
  EXPECT_EQ(tcp.port, 29500);
  EXPECT_EQ(ParseInitMethod("tcp://[::1]:0")->host, "::1");
  EXPECT_EQ(ParseInitMethod("tcp://localhost:5")->host, "127.0.0.1");
  const InitMethod file = *ParseInitMethod("file:///team/run-7");
  EXPECT_EQ(file.kind, InitMethod::Kind::kFile);
  EXPECT_EQ(file.file, "team/run-7");
}

TEST(ParseInitMethodTest, SaysWhatIsWrong) {
  for (const char* text :
       {"", "env", "tcp://", "tcp://10.0.0.1", "tcp://10.0.0.1:70000", "tcp://node7:1", "file://x",
        "file:///", "file:///../x", "file:///a//b", "file:///.hidden", "file:///a b"}) {
    EXPECT_THAT(WhyNot(ParseInitMethod(text).status()),
                HasSubstr("allowed: env://, tcp://host:port"))
        << text;
  }
}

}  // namespace
}  // namespace accel::config
