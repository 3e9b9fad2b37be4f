#ifndef ACCEL_CLIENT_CLI_IO_H_
#define ACCEL_CLIENT_CLI_IO_H_

#include <functional>
#include <istream>
#include <map>
#include <ostream>
#include <streambuf>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/process.h"

namespace accel::cli {

// The world around a command: a seam for tests. Holds references; nothing is owned.
struct Io {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  // Columns of the terminal behind `err`, asked at each use.
  std::function<int()> columns = [] { return 80; };
  std::map<std::string, std::string> environment = {};
  absl::TimeZone zone = absl::UTCTimeZone();
  const Clock& clock = Clock::Real();
  ProcessLauncher& launcher = ProcessLauncher::Real();

  // A variable of the environment; empty when it is not set.
  std::string Env(const std::string& name) const {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  }
};

// A buffer that writes to a file descriptor and remembers what went wrong, which std::cout does
// not.
class FdStreamBuf final : public std::streambuf {
 public:
  // Does not own `fd`.
  explicit FdStreamBuf(int fd);
  ~FdStreamBuf() override;

  // errno of the first write that failed; 0 for none.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int fd_;
  int error_ = 0;
  char buffer_[8192];
};

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_IO_H_
