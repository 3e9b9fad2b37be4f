#include "client/cli/cli.h"

#include "client/cli/commands.h"
#include "client/cli/report.h"

namespace accel::cli {
namespace {

void AddGlobalOptions(CLI::App* app, Context& context) {
  app->add_option("--address", context.address,
                  "Address of the daemon, unix:PATH or HOST:PORT on loopback (default: "
                  "$ACCEL_ADDRESS, else your own daemon, else the system's)");
  WithChoices(app->add_option("-o,--output", context.output, "Form of results (default table)"),
              context, {"json", "yaml", "table"});
  app->add_flag("--no-color", context.no_color, "No colours (as with $NO_COLOR)");
  app->set_version_flag("--version", "accelctl " ACCEL_VERSION);
}

void AddCommands(CLI::App* app, Context& context) {
  AddSubmitCommands(app, context);
  AddJobCommands(app, context);
  AddStreamCommands(app, context);
  AddCheckpointCommands(app, context);
  AddTrackerCommands(app, context);
  AddKwargsCommands(app, context);
  AddDaemonCommands(app, context);
  AddNodeCommands(app, context);
  AddCompletionCommand(app, context);
}

}  // namespace

int RunCli(const std::vector<std::string>& args, const Io& io) {
  Context context(io);
  CLI::App app("accelctl - submit and watch training jobs on this node", "accelctl");
  app.require_subcommand(1);
  app.fallthrough();
  AddGlobalOptions(&app, context);
  AddCommands(&app, context);
  app.footer(kExitCodeHelp);
  try {
    // CLI11 takes the arguments from the back.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    const bool asked_for_text = app.exit(error, io.out, io.err) == 0;
    return static_cast<int>(asked_for_text ? ExitCode::kOk : ExitCode::kInvalid);
  }
  const absl::StatusOr<ExitCode> result = context.command();
  io.out.flush();
  return static_cast<int>(result.ok() ? *result : ReportError(context, result.status()));
}

}  // namespace accel::cli
