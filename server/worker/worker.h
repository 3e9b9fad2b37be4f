#ifndef ACCEL_SERVER_WORKER_WORKER_H_
#define ACCEL_SERVER_WORKER_WORKER_H_

#include "core/base/fd.h"

namespace accel::worker {

// How a worker's process ends.
inline constexpr int kExitFinished = 0;
// A WorkerFailure was sent.
inline constexpr int kExitFailed = 1;
// The supervisor is gone or broke the protocol.
inline constexpr int kExitLost = 2;

// Trains one rank as the supervisor at the other end of `socket` says, and ends the process: what a
// worker has done is in its checkpoints and reports, so nothing is taken down in order.
[[noreturn]] void RunWorker(Fd socket);

}  // namespace accel::worker

#endif  // ACCEL_SERVER_WORKER_WORKER_H_
