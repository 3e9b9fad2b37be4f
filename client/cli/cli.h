#ifndef ACCEL_CLIENT_CLI_CLI_H_
#define ACCEL_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/io.h"

namespace accel::cli {

// Runs accelctl with `args` (without the program's name) and returns its exit code, see
// client/cli/exit_code.h. Results go to `io.out`, everything else to `io.err`.
int RunCli(const std::vector<std::string>& args, const Io& io);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_CLI_H_
