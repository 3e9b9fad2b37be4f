#ifndef ACCEL_CORE_BASE_PROCESS_H_
#define ACCEL_CORE_BASE_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace accel {

// A program to start.
struct ProcessOptions {
  // The program's path, then its arguments.
  std::vector<std::string> argv;
  // The whole environment, `NAME=value`.
  std::vector<std::string> environment;
  // Descriptors the child gets: {ours, the child's number}. Every other one is closed there if it
  // is close-on-exec, as all descriptors of this project are.
  std::vector<std::pair<int, int>> descriptors;
  // Whether the child leads a session of its own and so outlives its parent's terminal.
  bool new_session = false;
};

// The seam for processes. Thread-safe.
class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;

  // Starts a program with posix_spawn and returns its process id; the caller reaps it. The child
  // starts with no blocked signals and default handlers. An error leaves no process behind.
  virtual absl::StatusOr<pid_t> Spawn(const ProcessOptions& options) = 0;

  // The machine's processes; never destroyed.
  static ProcessLauncher& Real();
};

// How a child ended, from waitpid's status: `exited with code 3`, `exited on signal 9`.
std::string DescribeWaitStatus(int status);

}  // namespace accel

#endif  // ACCEL_CORE_BASE_PROCESS_H_
