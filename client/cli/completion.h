#ifndef ACCEL_CLIENT_CLI_COMPLETION_H_
#define ACCEL_CLIENT_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/context.h"

namespace accel::cli {

// A command as completion sees it.
struct CompletionCommand {
  // Words behind `accelctl`, joined by blanks; empty for accelctl itself.
  std::string path;
  std::string description;
  std::vector<std::string> subcommands;
  // Its own flags and the global ones, with dashes.
  std::vector<std::string> flags;
  // Flags that take a value, with the values allowed (none: any).
  std::vector<std::pair<std::string, std::vector<std::string>>> valued;
  // What its first positional is: "JOB", "FILE", a list of words, or nothing.
  std::string positional;
  std::vector<std::string> words;
};

// Every command below `app`, itself first, read from the parser: it cannot drift from it.
std::vector<CompletionCommand> DescribeCommands(const CLI::App& app, const Context& context);

// Scripts to be sourced. Jobs are completed by asking the daemon (`accelctl list --names`).
std::string BashCompletion(const std::vector<CompletionCommand>& commands);
std::string ZshCompletion(const std::vector<CompletionCommand>& commands);
std::string FishCompletion(const std::vector<CompletionCommand>& commands);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_COMPLETION_H_
