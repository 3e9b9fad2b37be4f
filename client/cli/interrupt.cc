#include "client/cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace accel::cli {
namespace {

// A signal handler reaches nothing but globals.
std::atomic<int> interrupt_pipe = -1;
struct sigaction previous_action;

void OnSignal(int) {
  const int saved = errno;
  const char byte = 'i';
  // A full pipe already holds more interrupts than anybody counts.
  (void)!write(interrupt_pipe.load(), &byte, 1);
  errno = saved;
}

}  // namespace

InterruptListener::InterruptListener(std::function<void(int)> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;  // SIGINT then ends the process as usual
  read_end_.Reset(ends[0]);
  write_end_.Reset(ends[1]);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  interrupt_pipe.store(ends[1]);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_action);
  thread_ = std::thread([this] { Run(); });
}

InterruptListener::~InterruptListener() {
  if (!thread_.joinable()) return;
  sigaction(SIGINT, &previous_action, nullptr);
  interrupt_pipe.store(-1);
  write_end_.Reset();
  thread_.join();
}

void InterruptListener::Run() {
  char byte = 0;
  int count = 0;
  while (true) {
    const ssize_t got = read(read_end_.get(), &byte, 1);
    if (got == 1) {
      on_interrupt_(++count);
    } else if (got == 0 || errno != EINTR) {
      return;
    }
  }
}

}  // namespace accel::cli
