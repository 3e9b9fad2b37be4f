// The program itself: exit codes, second daemons, kill -9, an orderly end.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "core/base/fd.h"
#include "core/base/process.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/daemon/exit_codes.h"
#include "tests/unit/daemon/node_fixture.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;
using testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return (std::stringstream() << file.rdbuf()).str();
}

class AcceldTest : public testing::Test {
 protected:
  void TearDown() override {
    if (pid_ > 0) {
      for (const std::string& id : jobs_) client_->Cancel(id);
      for (const std::string& id : jobs_) {
        EXPECT_TRUE(Eventually([&] { return HasEnded(client_->Get(id).state()); }));
      }
      EXPECT_EQ(Terminate(), kExitOk);
    }
  }

  std::filesystem::path LogPath() const { return folders_.data() / "log"; }
  std::filesystem::path InfoPath() const { return folders_.state() / "acceld.json"; }

  pid_t Spawn(const std::vector<std::string>& flags, const std::filesystem::path& log) {
    ProcessOptions options;
    options.argv = {ACCEL_ACCELD, "--supervisor", ACCEL_FAKE_SUPERVISOR, "--worker", "/bin/false"};
    options.argv.insert(options.argv.end(), flags.begin(), flags.end());
    Fd output(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    options.descriptors = {{output.get(), 1}, {output.get(), 2}};
    return *ProcessLauncher::Real().Spawn(options);
  }
  static int Wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void Start() {
    std::filesystem::remove(InfoPath());
    pid_ = Spawn({"--state_dir", folders_.state(), "--listen", "127.0.0.1:0", "--metrics_address",
                  "127.0.0.1:0", "--data_root", "data=" + folders_.data().string()},
                 LogPath());
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(InfoPath()); }))
        << ReadFile(LogPath());
    info_ = nlohmann::json::parse(ReadFile(InfoPath()));
    client_ = std::make_unique<NodeClient>(info_["listen_addresses"][0].get<std::string>());
  }
  int Terminate() {
    kill(pid_, SIGTERM);
    return Wait(std::exchange(pid_, 0));
  }

  NodeFolders folders_;
  pid_t pid_ = 0;
  nlohmann::json info_;
  std::unique_ptr<NodeClient> client_;
  std::vector<std::string> jobs_;
};

TEST_F(AcceldTest, JobsSurviveKillAndNothingAcceptedIsLost) {
  Start();
  jobs_ = {"running", "queued"};
  ASSERT_TRUE(client_->Submit("running", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("running", 10));
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({.ranks = 2});
  request.set_job_id("queued");
  request.set_request_id("the-same");
  Job first;
  ASSERT_TRUE(client_->Create(request, &first).ok());
  kill(pid_, SIGKILL);
  EXPECT_EQ(Wait(pid_), -SIGKILL);
  Start();
  EXPECT_EQ(client_->Get("running").state(), Job::RUNNING);
  Job second;
  ASSERT_TRUE(client_->Create(request, &second).ok());
  EXPECT_EQ(second.uid(), first.uid());
  ASSERT_TRUE(client_->Cancel("running").ok());
  ASSERT_TRUE(client_->AwaitState("queued", Job::SUCCEEDED));
  EXPECT_EQ(client_->Stream("running", 0, true).rows.size(), 10u);
}

TEST_F(AcceldTest, SecondDaemonIsRefusedWithTheHoldersPid) {
  Start();
  const std::filesystem::path log = folders_.data() / "second";
  EXPECT_EQ(Wait(Spawn({"--state_dir", folders_.state(), "--metrics_address", "off"}, log)),
            kExitStateLocked);
  EXPECT_THAT(ReadFile(log), HasSubstr("pid " + std::to_string(pid_)));
  accel::v1::Node node;
  grpc::ClientContext context;
  ASSERT_TRUE(client_->node->GetNode(&context, {}, &node).ok());
  EXPECT_EQ(node.pid(), pid_);
}

TEST_F(AcceldTest, AddressInUseIsNamed) {
  Start();
  const TempDir other;
  const std::string socket = "unix:" + (other.path() / "api.sock").string();
  const std::string api = info_["listen_addresses"][0];
  const std::string metrics = info_["metrics_address"];
  const std::filesystem::path log = folders_.data() / "other";
  EXPECT_EQ(
      Wait(Spawn({"--state_dir", other.path() / "a", "--listen", api, "--metrics_address", "off"},
                 log)),
      kExitAddressInUse);
  EXPECT_THAT(ReadFile(log), HasSubstr(api + " is in use"));
  EXPECT_EQ(Wait(Spawn({"--state_dir", other.path() / "b", "--listen", socket, "--metrics_address",
                        metrics},
                       log)),
            kExitAddressInUse);
  EXPECT_THAT(ReadFile(log), HasSubstr(metrics + " is in use"));
}

TEST_F(AcceldTest, UnixSocketInUseIsLeftToItsHolder) {
  Start();
  const TempDir other;
  const std::string socket = "unix:" + (other.path() / "api.sock").string();
  const std::filesystem::path log = folders_.data() / "holder";
  const pid_t holder = Spawn(
      {"--state_dir", other.path() / "a", "--listen", socket, "--metrics_address", "off"}, log);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(other.path() / "a/acceld.json"); }));
  EXPECT_EQ(Wait(Spawn(
                {"--state_dir", other.path() / "b", "--listen", socket, "--metrics_address", "off"},
                log)),
            kExitAddressInUse);
  accel::v1::Node node;
  grpc::ClientContext context;
  EXPECT_TRUE(NodeClient(socket).node->GetNode(&context, {}, &node).ok());
  EXPECT_EQ(node.pid(), holder);
  kill(holder, SIGINT);
  EXPECT_EQ(Wait(holder), kExitOk);
}

TEST_F(AcceldTest, WrongFlagsHaveTheirOwnExitCode) {
  const std::filesystem::path log = folders_.data() / "wrong";
  EXPECT_EQ(Wait(Spawn({"--listen", "0.0.0.0:0"}, log)), kExitUsage);
  EXPECT_THAT(ReadFile(log), HasSubstr("0.0.0.0"));
  EXPECT_EQ(Wait(Spawn({"--help"}, log)), kExitOk);
}

TEST_F(AcceldTest, OrderlyEndLeavesJobsRunningAndNoTrace) {
  Start();
  jobs_ = {"survivor"};
  ASSERT_TRUE(client_->Submit("survivor", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("survivor", 10));
  accel::v1::StreamMetricsRequest request;
  request.set_name("jobs/survivor");
  request.mutable_range()->set_follow(true);
  grpc::ClientContext context;
  const auto reader = client_->telemetry->StreamMetrics(&context, request);
  accel::v1::StreamMetricsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(Terminate(), kExitOk);
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(ErrorInfoOf(reader->Finish()).reason(), "NODE_DRAINING");
  EXPECT_FALSE(std::filesystem::exists(InfoPath()));
  Start();
  EXPECT_EQ(client_->Get("survivor").state(), Job::RUNNING);
}

TEST_F(AcceldTest, StateFolderAndFilesAreOwnerOnly) {
  std::filesystem::create_directory(folders_.state());
  Start();
  jobs_ = {"private"};
  ASSERT_TRUE(client_->Submit("private", {}).ok());
  ASSERT_TRUE(client_->AwaitState("private", Job::SUCCEEDED));
  std::vector<std::filesystem::path> paths = {folders_.state()};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folders_.state())) {
    paths.push_back(entry.path());
  }
  EXPECT_GT(paths.size(), 6u);
  for (const auto& path : paths) {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0) continue;
    EXPECT_EQ(info.st_mode & 077, 0u) << path;
  }
}

}  // namespace
}  // namespace accel::daemon
