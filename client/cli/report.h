#ifndef ACCEL_CLIENT_CLI_REPORT_H_
#define ACCEL_CLIENT_CLI_REPORT_H_

#include "absl/status/status.h"
#include "client/cli/context.h"

namespace accel::cli {

// Prints an error to standard error: what went wrong, one line `<field>: <what>` for each field
// violation, and what to do next. Returns the exit code.
ExitCode ReportError(const Context& context, const absl::Status& status);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_REPORT_H_
