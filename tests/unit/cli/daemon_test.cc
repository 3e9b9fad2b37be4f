#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/daemon_process.h"
#include "client/cli/places.h"
#include "core/base/files.h"
#include "tests/unit/cli/cli_test_fixture.h"

namespace accel::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DaemonTest : public CliTest {
 protected:
  ~DaemonTest() override {
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  Io MakeIo() {
    Io io{.in = in_, .out = out_, .err = out_};
    io.environment = environment_;
    return io;
  }

  // A program that sleeps, under a name of our choice.
  pid_t SpawnSleeper(const std::string& name) {
    const std::string program = dir_ / name;
    std::filesystem::copy_file("/bin/sleep", program,
                               std::filesystem::copy_options::overwrite_existing);
    const pid_t pid = *ProcessLauncher::Real().Spawn(
        {.argv = {program, "1000"}, .environment = {}, .descriptors = {}, .new_session = true});
    children_.push_back(pid);
    return pid;
  }

  // An acceld that is a shell script. `exec` keeps its pid, and gives it acceld's name.
  std::string WriteProgram(const std::string& body) {
    const std::string path = WriteFile("acceld.sh", "#!/bin/sh\n" + body);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  void WriteDaemonFile(pid_t pid, const std::string& address) {
    WriteFile("acceld.json", absl::StrCat(R"({"pid": )", pid, R"(, "version": "0.1.0",
        "listen_addresses": [")",
                                          address, R"("], "metrics_address": "127.0.0.1:9464"})"));
  }

  std::vector<pid_t> children_;
  std::istringstream in_;
  std::ostringstream out_;
};

TEST_F(DaemonTest, AddressComesFromTheFlagThenTheEnvironmentThenTheStateFolder) {
  environment_["ACCEL_ADDRESS"] = "127.0.0.1:2";
  const Io with_environment = MakeIo();
  EXPECT_EQ(*FindAddress(with_environment, "127.0.0.1:1"), "127.0.0.1:1");
  EXPECT_EQ(*FindAddress(with_environment, ""), "127.0.0.1:2");

  environment_.erase("ACCEL_ADDRESS");
  const Io io = MakeIo();
  EXPECT_EQ(FindAddress(io, "").status().code(), absl::StatusCode::kUnavailable);
  fake::FakeNode node("unix:" + dir_ / "acceld.sock");
  EXPECT_EQ(*FindAddress(io, ""), "unix:" + dir_ / "acceld.sock");
  WriteDaemonFile(getpid(), "127.0.0.1:3");
  EXPECT_EQ(*FindAddress(io, ""), "127.0.0.1:3");
}

TEST_F(DaemonTest, LeftoversOfADeadDaemonAreNoAddress) {
  const pid_t gone = SpawnSleeper("acceld");
  kill(gone, SIGKILL);
  waitpid(gone, nullptr, 0);
  children_.clear();
  WriteDaemonFile(gone, "127.0.0.1:3");
  EXPECT_EQ(FindAddress(MakeIo(), "").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DaemonTest, UserStateDirFollowsTheEnvironment) {
  environment_ = {{"HOME", "/home/u"}};
  EXPECT_EQ(*UserStateDir(MakeIo()), "/home/u/.local/state/accel");
  environment_["XDG_STATE_HOME"] = "relative";
  EXPECT_EQ(*UserStateDir(MakeIo()), "/home/u/.local/state/accel");
  environment_["XDG_STATE_HOME"] = "/xdg";
  EXPECT_EQ(*UserStateDir(MakeIo()), "/xdg/accel");
  environment_["ACCEL_STATE_DIR"] = "/mine";
  EXPECT_EQ(*UserStateDir(MakeIo()), "/mine");
  environment_.clear();
  EXPECT_EQ(UserStateDir(MakeIo()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DaemonTest, DaemonFileIsChecked) {
  EXPECT_EQ(ReadDaemonFile(dir_.path()).status().code(), absl::StatusCode::kNotFound);
  for (const char* bad :
       {"", "{", "[]", "{}", R"({"pid": 1})", R"({"pid": "x", "listen_addresses": ["a"]})",
        R"({"pid": 1, "listen_addresses": []})"}) {
    WriteFile("acceld.json", bad);
    EXPECT_EQ(ReadDaemonFile(dir_.path()).status().code(), absl::StatusCode::kDataLoss) << bad;
  }
  WriteDaemonFile(42, "unix:/x");
  const auto file = ReadDaemonFile(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->pid, 42);
  EXPECT_EQ(file->metrics_address, "127.0.0.1:9464");
}

TEST_F(DaemonTest, OnlyAcceldIsStopped) {
  const pid_t other = SpawnSleeper("other");
  EXPECT_FALSE(IsAcceld(other));
  EXPECT_EQ(StopDaemon(other, absl::Seconds(10)).code(), absl::StatusCode::kFailedPrecondition);
  WriteDaemonFile(other, "unix:/x");
  EXPECT_EQ(Run({"daemon", "stop"}).out, "no acceld runs in " + dir_.path().string() + "\n");
  EXPECT_EQ(waitpid(other, nullptr, WNOHANG), 0);

  const pid_t acceld = SpawnSleeper("acceld");
  EXPECT_TRUE(IsAcceld(acceld));
  WriteDaemonFile(acceld, "unix:/x");
  const CliResult result = Run({"daemon", "stop"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_EQ(result.out, absl::StrCat("acceld stopped, pid ", acceld, "\n"));
  int status = 0;
  EXPECT_EQ(waitpid(acceld, &status, WNOHANG), acceld);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  children_.pop_back();
}

TEST_F(DaemonTest, StartWaitsUntilTheDaemonServes) {
  fake::FakeNode node("unix:" + dir_ / "acceld.sock");
  std::filesystem::copy_file("/bin/sleep", dir_ / "acceld");
  const std::string program = WriteProgram(
      "echo \"$@\" > '" + dir_ / "arguments" +
      "'\n"
      "printf '{\"pid\": %d, \"version\": \"0.1.0\", \"listen_addresses\": [\"%s\"]}' $$ '" +
      node.address() + "' > '" + dir_ / "acceld.json" +
      "'\n"
      "exec '" +
      dir_ / "acceld" + "' 1000\n");
  CliResult result = Run({"daemon", "start", "--program", program, "--data-root", "d=/x",
                          "--metrics-address", "off", "--", "--max_ranks", "4"});
  ASSERT_EQ(result.code, ExitCode::kOk) << result.err;
  const pid_t pid = ReadDaemonFile(dir_.path())->pid;
  children_.push_back(pid);
  EXPECT_EQ(result.out,
            absl::StrCat("acceld 0.1.0 started, pid ", pid, ", on ", node.address(), "\n"));
  EXPECT_EQ(
      *FileSystem::Real().Read(dir_ / "arguments"),
      absl::StrCat("--state_dir ", dir_.path().string(), " --listen unix:", dir_ / "acceld.sock",
                   " --data_root d=/x --metrics_address off --max_ranks 4\n"));
  EXPECT_EQ(getsid(pid), pid);

  result = Run({"daemon", "start"});
  EXPECT_EQ(result.code, ExitCode::kOk);
  EXPECT_THAT(result.out, StartsWith("acceld 0.1.0 already runs"));
  result = Run({"daemon", "start", "--data-root", "e=/y"});
  EXPECT_EQ(result.code, ExitCode::kRefused);
  EXPECT_THAT(result.err, HasSubstr("accelctl daemon stop"));
}

TEST_F(DaemonTest, StartReportsADaemonThatDies) {
  WriteFile("acceld.log", "an old line\n");
  const std::string program = WriteProgram("echo 'acceld: port 1 is taken' >&2\nexit 4\n");
  const CliResult result = Run({"daemon", "start", "--program", program});
  EXPECT_EQ(result.code, ExitCode::kRefused);
  EXPECT_THAT(result.err, HasSubstr("acceld exited with code 4; acceld: port 1 is taken; see "));
  EXPECT_THAT(result.err, HasSubstr(dir_ / "acceld.log"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("an old line")));
}

TEST_F(DaemonTest, StartEndsADaemonThatNeverServes) {
  const std::string program =
      WriteProgram("echo $$ > '" + dir_ / "pid" + "'\nexec /bin/sleep 1000\n");
  const CliResult result = Run({"daemon", "start", "--program", program, "--timeout", "0.3"});
  EXPECT_EQ(result.code, ExitCode::kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("did not serve within 300ms and was ended"));
  const pid_t pid = static_cast<pid_t>(std::stoi(*FileSystem::Real().Read(dir_ / "pid")));
  EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace accel::cli
