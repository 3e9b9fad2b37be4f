#include "client/cli/exit_code.h"

namespace accel::cli {

const char kExitCodeHelp[] =
    "Exit codes:\n"
    "  0    done; the job succeeded\n"
    "  1    the job failed\n"
    "  2    wrong usage or an invalid job\n"
    "  3    no daemon answers\n"
    "  4    no such job\n"
    "  5    refused in the present state (id in use, job has ended, queue full)\n"
    "  6    not implemented by the daemon\n"
    "  7    the job was cancelled\n"
    "  8    any other error\n"
    "  130  interrupted\n";

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kInvalid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnreachable;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
      return ExitCode::kRefused;
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kNotImplemented;
    default:
      return ExitCode::kOther;
  }
}

ExitCode ExitCodeOf(v1::Job::State state) {
  switch (state) {
    case v1::Job::FAILED:
      return ExitCode::kJobFailed;
    case v1::Job::CANCELLED:
      return ExitCode::kJobCancelled;
    default:
      return ExitCode::kOk;
  }
}

}  // namespace accel::cli
