#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdio>

#include "core/base/fd.h"
#include "server/worker/worker.h"

namespace {

constexpr int kChannelFd = 3;

}  // namespace

int main() {
  struct stat status;
  if (fstat(kChannelFd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    std::fputs("accel-worker is started by accel-supervisor: descriptor 3 is no socket\n", stderr);
    return accel::worker::kExitLost;
  }
  // The channel's end tells of the supervisor's death too, but not to a process that is stopped.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  accel::worker::RunWorker(accel::Fd(kChannelFd));
}
