#ifndef ACCEL_CLIENT_CLI_INTERRUPT_H_
#define ACCEL_CLIENT_CLI_INTERRUPT_H_

#include <functional>
#include <thread>

#include "core/base/fd.h"

namespace accel::cli {

// While one of these lives, SIGINT calls `on_interrupt` with 1, 2, ... on a thread of its own
// instead of ending the process. At most one at a time.
class InterruptListener {
 public:
  explicit InterruptListener(std::function<void(int)> on_interrupt);
  // Restores what SIGINT did before; waits for a running call.
  ~InterruptListener();

  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

 private:
  void Run();

  const std::function<void(int)> on_interrupt_;
  Fd read_end_;
  Fd write_end_;
  std::thread thread_;
};

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_INTERRUPT_H_
