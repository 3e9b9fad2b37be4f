// accelctl kwargs: Accelerate's settings, computed here without a daemon.

#include "client/cli/commands.h"
#include "client/cli/human.h"
#include "client/cli/job_file.h"
#include "client/cli/output.h"
#include "core/base/status_macros.h"
#include "core/config/accelerator.h"

namespace accel::cli {
namespace {

struct KwargsOptions {
  std::string file;
  std::string device;
};

ExitCode Print(const Context& context, const v1::AcceleratorConfig& config) {
  const OutputFormat format = context.Format(OutputFormat::kJson);
  if (format == OutputFormat::kTable) {
    PrintFields(context.io.out, config, context.color_out());
  } else {
    PrintMessage(context.io.out, format, config);
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> ResolveOrDiff(const Context& context, const KwargsOptions& options,
                                       bool difference) {
  AcceleratorFile input;
  if (!options.file.empty()) {
    ACCEL_ASSIGN_OR_RETURN(input, ReadAcceleratorFile(context.io, options.file));
  }
  ACCEL_ASSIGN_OR_RETURN(const config::ResolvedAccelerator resolved,
                         config::ResolveAccelerator(
                             input.config, options.device.empty() ? input.device : options.device));
  for (const std::string& warning : resolved.warnings) context.Note("warning: " + warning);
  return Print(context, difference ? resolved.difference : resolved.resolved);
}

}  // namespace

void AddKwargsCommands(CLI::App* app, Context& context) {
  CLI::App* kwargs = app->add_subcommand("kwargs", "Accelerate's kwargs handlers, as JSON");
  kwargs->require_subcommand(1);
  CLI::App* defaults = kwargs->add_subcommand("defaults", "Every handler with its defaults");
  SetCommand(defaults, context,
             [&context] { return Print(context, config::DefaultAccelerator()); });

  const auto add = [&](const char* name, const char* description, bool difference) {
    CLI::App* command = kwargs->add_subcommand(name, description);
    auto options = std::make_shared<KwargsOptions>();
    command->add_option("FILE", options->file,
                        "Handlers or a whole job in YAML or JSON; - reads standard input");
    WithChoices(command->add_option("--device", options->device,
                                    "Device of the ranks (default: the job's, else cpu)"),
                context, {"cpu", "cuda"});
    SetCommand(command, context, [&context, options, difference] {
      return ResolveOrDiff(context, *options, difference);
    });
  };
  add("resolve", "A file's handlers with every default filled in", false);
  add("diff", "What differs from the defaults: Accelerate's to_kwargs()", true);
}

}  // namespace accel::cli
