// accelctl completion.

#include "client/cli/commands.h"
#include "client/cli/completion.h"

namespace accel::cli {

void AddCompletionCommand(CLI::App* app, Context& context) {
  CLI::App* completion = app->add_subcommand("completion", "Print a shell's completion script");
  auto shell = std::make_shared<std::string>();
  WithChoices(completion->add_option("SHELL", *shell, "bash, zsh or fish")->required(), context,
              {"bash", "zsh", "fish"});
  completion->footer(
      "bash: source <(accelctl completion bash)\n"
      "zsh:  source <(accelctl completion zsh)\n"
      "fish: accelctl completion fish | source");
  SetCommand(completion, context, [app, &context, shell]() -> absl::StatusOr<ExitCode> {
    const std::vector<CompletionCommand> commands = DescribeCommands(*app, context);
    context.io.out << (*shell == "bash"  ? BashCompletion(commands)
                       : *shell == "zsh" ? ZshCompletion(commands)
                                         : FishCompletion(commands));
    return ExitCode::kOk;
  });
}

}  // namespace accel::cli
