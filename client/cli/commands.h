#ifndef ACCEL_CLIENT_CLI_COMMANDS_H_
#define ACCEL_CLIENT_CLI_COMMANDS_H_

#include "client/cli/context.h"

namespace accel::cli {

// Each adds a group of commands to `app`. `context` must outlive it.
void AddDaemonCommands(CLI::App* app, Context& context);      // daemon start, stop, status
void AddSubmitCommands(CLI::App* app, Context& context);      // run, submit, validate
void AddJobCommands(CLI::App* app, Context& context);         // get, list, cancel, delete
void AddStreamCommands(CLI::App* app, Context& context);      // watch, logs, metrics
void AddCheckpointCommands(CLI::App* app, Context& context);  // checkpoints
void AddTrackerCommands(CLI::App* app, Context& context);     // trackers, trackers sync
void AddKwargsCommands(CLI::App* app, Context& context);      // kwargs defaults, resolve, diff
void AddNodeCommands(CLI::App* app, Context& context);        // node, env, version
void AddCompletionCommand(CLI::App* app, Context& context);   // completion

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_COMMANDS_H_
