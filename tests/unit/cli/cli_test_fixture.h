#ifndef ACCEL_TESTS_UNIT_CLI_CLI_TEST_FIXTURE_H_
#define ACCEL_TESTS_UNIT_CLI_CLI_TEST_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/exit_code.h"
#include "tests/unit/client/fake_node.h"

namespace accel::cli {

// The outcome of one run of accelctl.
struct CliResult {
  ExitCode code;
  std::string out;
  std::string err;
};

// Time stands still at 2031-05-01 12:00:00 UTC until a test moves it.
class FakeClock final : public Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Duration Monotonic() const override { return now - absl::UnixEpoch(); }
  absl::Time now = absl::FromCivil(absl::CivilSecond(2031, 5, 1, 12, 0, 0), absl::UTCTimeZone());
};

// Runs commands in this process, off a terminal unless a test says otherwise, with an environment
// of its own whose state folder is a fresh one.
class CliTest : public ::testing::Test {
 protected:
  CliResult Run(const std::vector<std::string>& args, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    Io io{.in = in, .out = out, .err = err};
    io.out_is_terminal = io.err_is_terminal = terminal_;
    io.environment = environment_;
    const int code = RunCli(args, io);
    return {static_cast<ExitCode>(code), out.str(), err.str()};
  }

  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = dir_ / name;
    std::ofstream(path) << text;
    return path;
  }

  fake::TempDir dir_;
  bool terminal_ = false;
  std::map<std::string, std::string> environment_ = {{"ACCEL_STATE_DIR", dir_.path().string()},
                                                     {"PATH", "/usr/bin:/bin"}};
};

// With a fake daemon that is found by default.
class NodeCliTest : public CliTest {
 protected:
  fake::FakeNode node_{"unix:" + dir_ / "acceld.sock"};
};

}  // namespace accel::cli

#endif  // ACCEL_TESTS_UNIT_CLI_CLI_TEST_FIXTURE_H_
