#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "absl/strings/string_view.h"
#include "client/cli/cli.h"
#include "client/cli/exit_code.h"

namespace {

int TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::map<std::string, std::string> Environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    if (const size_t equals = text.find('='); equals != absl::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that has gone (`accelctl logs mnist | head`) is an error of write, not a signal.
  signal(SIGPIPE, SIG_IGN);
  accel::cli::FdStreamBuf buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  accel::cli::Io io{.in = std::cin, .out = out, .err = std::cerr};
  io.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  io.err_is_terminal = isatty(STDERR_FILENO) == 1;
  io.columns = TerminalColumns;
  io.environment = Environment();
  io.zone = absl::LocalTimeZone();
  const int code = accel::cli::RunCli(std::vector<std::string>(argv + 1, argv + argc), io);
  if (buffer.error() == 0 || buffer.error() == EPIPE) return code;
  std::cerr << "accelctl: error: cannot write to standard output: " << std::strerror(buffer.error())
            << '\n';
  return code != 0 ? code : static_cast<int>(accel::cli::ExitCode::kOther);
}
