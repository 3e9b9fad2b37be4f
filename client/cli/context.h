#ifndef ACCEL_CLIENT_CLI_CONTEXT_H_
#define ACCEL_CLIENT_CLI_CONTEXT_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cli/exit_code.h"
#include "client/cli/io.h"
#include "client/client.h"

namespace accel::cli {

enum class OutputFormat { kTable, kJson, kYaml };

// What a command does once the command line is understood.
using Command = std::function<absl::StatusOr<ExitCode>()>;

// State of one run of accelctl, shared by its commands.
class Context {
 public:
  explicit Context(const Io& io) : io(io) {}

  // A client of the daemon that the flags and the environment name.
  absl::StatusOr<std::unique_ptr<client::Client>> Connect();

  // -o, or `fallback` where it was not given.
  OutputFormat Format(OutputFormat fallback = OutputFormat::kTable) const;

  bool color_out() const { return io.out_is_terminal && color_allowed(); }
  bool color_err() const { return io.err_is_terminal && color_allowed(); }

  // Text of others for standard output: escaped on a terminal, else as it is.
  std::string Shown(absl::string_view text) const;

  // A line of its own on standard error, `accelctl: <text>`, or what `note_sink` makes of it.
  void Note(absl::string_view text) const;

  // `accelctl: warning: ...` for each of a job's warnings.
  void PrintWarnings(const v1::Job& job) const;

  const Io& io;
  // Global flags.
  std::string address;
  std::string output;
  bool no_color = false;
  // Where notes go while something else draws on standard error. Called from any thread.
  std::function<void(absl::string_view)> note_sink;
  // The command that was chosen.
  Command command;
  // Address that Connect() used, and the job in question, for the advice in error messages.
  std::string used_address;
  std::string job;
  // Allowed values of options, for completion: of the option itself, since CLI11 keeps none.
  std::map<const CLI::Option*, std::vector<std::string>> choices;

 private:
  bool color_allowed() const { return !no_color && io.Env("NO_COLOR").empty(); }
};

// Makes `app` run `command`.
void SetCommand(CLI::App* app, Context& context, Command command);

// An option with a fixed set of values in any case, kept for completion.
CLI::Option* WithChoices(CLI::Option* option, Context& context, std::vector<std::string> values);

// Makes an option of a list take one value each time it is given. CLI11's own way is greedy and
// would take the positional arguments behind it.
CLI::Option* Repeatable(CLI::Option* option);

// The positional JOB; `mnist` and `jobs/mnist` are the same.
CLI::Option* AddJobArgument(CLI::App* app, std::string& job);

// The job's name, kept in `context.job`; INVALID_ARGUMENT for what cannot be one.
absl::StatusOr<std::string> JobName(Context& context, const std::string& reference);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_CONTEXT_H_
