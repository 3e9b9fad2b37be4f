#ifndef ACCEL_CLIENT_CLI_EXIT_CODE_H_
#define ACCEL_CLIENT_CLI_EXIT_CODE_H_

#include "absl/status/status.h"
#include "accel/v1/job.pb.h"

namespace accel::cli {

// What accelctl's exit code says, for scripts. Fixed: numbers are never given a new meaning.
enum class ExitCode : int {
  // Done; a job that was followed to its end succeeded.
  kOk = 0,
  // The job that was followed failed.
  kJobFailed = 1,
  // Wrong usage, an unreadable file, or an invalid job.
  kInvalid = 2,
  // No daemon answers.
  kUnreachable = 3,
  // No such job or checkpoint.
  kNotFound = 4,
  // Refused in the present state: the id is in use, the job has ended, the queue is full, ...
  kRefused = 5,
  // The daemon does not implement it.
  kNotImplemented = 6,
  // The job that was followed was cancelled.
  kJobCancelled = 7,
  // Anything else.
  kOther = 8,
  // Interrupted (128 + SIGINT), before the job that was followed had ended.
  kInterrupted = 130,
};

// The same for people, as shown by --help.
extern const char kExitCodeHelp[];

// Of an error; kOk for OK.
ExitCode ExitCodeOf(const absl::Status& status);

// Of a job's state; kOk for all but FAILED and CANCELLED.
ExitCode ExitCodeOf(v1::Job::State state);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_EXIT_CODE_H_
