#include "core/base/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "core/base/fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

using testing::HasSubstr;

std::pair<Fd, Fd> Pipe() {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

std::string ReadAll(const Fd& fd) {
  std::string all;
  char chunk[4096];
  for (ssize_t got; (got = read(fd.get(), chunk, sizeof(chunk))) > 0;) all.append(chunk, got);
  return all;
}

struct Outcome {
  std::string output;
  int status = 0;
};

// Runs a shell command to its end.
Outcome RunShell(const std::string& command, ProcessOptions options = {}) {
  auto [reader, writer] = Pipe();
  options.argv = {"/bin/sh", "-c", command};
  options.descriptors.emplace_back(writer.get(), STDOUT_FILENO);
  auto pid = ProcessLauncher::Real().Spawn(options);
  EXPECT_TRUE(pid.ok()) << pid.status();
  writer.Reset();
  Outcome outcome;
  outcome.output = ReadAll(reader);
  EXPECT_EQ(waitpid(*pid, &outcome.status, 0), *pid);
  return outcome;
}

TEST(ProcessTest, ChildHasTheGivenEnvironmentOnly) {
  ProcessOptions options;
  options.environment = {"ONE=1", "TWO=2 words"};
  const Outcome outcome = RunShell("exec env", options);
  EXPECT_THAT(outcome.output, HasSubstr("ONE=1\n"));
  EXPECT_THAT(outcome.output, HasSubstr("TWO=2 words\n"));
  EXPECT_THAT(outcome.output, testing::Not(HasSubstr("HOME=")));
}

TEST(ProcessTest, DescriptorsMaySwapAndKeepTheirNumbers) {
  auto first = Pipe();
  auto second = Pipe();
  ASSERT_EQ(write(first.second.get(), "first\n", 6), 6);
  ASSERT_EQ(write(second.second.get(), "second\n", 7), 7);
  const int a = first.first.get();
  const int b = second.first.get();
  ASSERT_LT(a, 10);
  ASSERT_LT(b, 10);
  ProcessOptions options;
  options.descriptors = {{a, b}, {b, a}};
  const std::string command =
      "read x <&" + std::to_string(b) + "; read y <&" + std::to_string(a) + "; echo $x $y";
  EXPECT_EQ(RunShell(command, options).output, "first second\n");

  ASSERT_EQ(write(first.second.get(), "same\n", 5), 5);
  options.descriptors = {{a, a}};
  EXPECT_EQ(RunShell("read x <&" + std::to_string(a) + "; echo $x", options).output, "same\n");
}

TEST(ProcessTest, OtherDescriptorsAreClosedInTheChild) {
  const auto held = Pipe();
  const std::string fd = "/proc/self/fd/" + std::to_string(held.first.get());
  EXPECT_EQ(RunShell("test -e " + fd + " && echo open || echo closed").output, "closed\n");
}

TEST(ProcessTest, ChildHasDefaultSignals) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto handler = signal(SIGTERM, SIG_IGN);
  const Outcome outcome = RunShell("kill -TERM $$; echo survived");
  signal(SIGTERM, handler);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(DescribeWaitStatus(outcome.status), "exited on signal 15");
}

TEST(ProcessTest, SessionOfItsOwn) {
  // Field 6 of stat is the session.
  const std::string own_session =
      "read -r a b c d e session rest < /proc/$$/stat; "
      "test $session = $$ && echo leader || echo member";
  EXPECT_EQ(RunShell(own_session).output, "member\n");
  ProcessOptions options;
  options.new_session = true;
  EXPECT_EQ(RunShell(own_session, options).output, "leader\n");
}

TEST(ProcessTest, MissingProgramLeavesNoProcess) {
  auto pid = ProcessLauncher::Real().Spawn(
      {.argv = {"/nonexistent/program"}, .environment = {}, .descriptors = {}});
  EXPECT_TRUE(absl::IsNotFound(pid.status()));
  EXPECT_THAT(std::string(pid.status().message()), HasSubstr("/nonexistent/program"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ProcessTest, BadDescriptorIsAnError) {
  EXPECT_FALSE(ProcessLauncher::Real()
                   .Spawn({.argv = {"/bin/true"}, .environment = {}, .descriptors = {{-1, 0}}})
                   .ok());
}

TEST(ProcessTest, DescribesExitCodes) {
  EXPECT_EQ(DescribeWaitStatus(RunShell("exit 3").status), "exited with code 3");
}

}  // namespace
}  // namespace accel
