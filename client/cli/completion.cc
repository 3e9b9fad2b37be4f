#include "client/cli/completion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace accel::cli {
namespace {

void DescribeOptions(const CLI::App& app, const Context& context, CompletionCommand* command) {
  for (const CLI::Option* option : app.get_options()) {
    const auto choices = context.choices.find(option);
    const bool has_choices = choices != context.choices.end();
    if (option->get_positional()) {
      if (!command->positional.empty()) continue;
      command->positional = option->get_name(true);
      if (has_choices) command->words = choices->second;
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : names) {
      command->flags.push_back(name);
      if (option->get_items_expected_max() == 0) continue;
      command->valued.emplace_back(name,
                                   has_choices ? choices->second : std::vector<std::string>());
    }
  }
}

void Describe(const CLI::App& app, const CLI::App& root, const std::string& path,
              const Context& context, std::vector<CompletionCommand>* commands) {
  CompletionCommand command;
  command.path = path;
  command.description = app.get_description();
  DescribeOptions(app, context, &command);
  // Global flags are accepted behind a command too, --help is its own.
  if (&app != &root) {
    CompletionCommand globals;
    DescribeOptions(root, context, &globals);
    for (const std::string& flag : globals.flags) {
      if (flag != "--help" && flag != "-h" && flag != "--version") command.flags.push_back(flag);
    }
    command.valued.insert(command.valued.end(), globals.valued.begin(), globals.valued.end());
  }
  const auto children = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* child : children) command.subcommands.push_back(child->get_name());
  commands->push_back(std::move(command));
  for (const CLI::App* child : children) {
    const std::string child_path =
        path.empty() ? child->get_name() : path + " " + child->get_name();
    Describe(*child, root, child_path, context, commands);
  }
}

std::string Words(const std::vector<std::string>& words) { return absl::StrJoin(words, " "); }

// Flags that take a value, of all commands: behind one, no command or positional is expected.
std::string ValuedPattern(const std::vector<CompletionCommand>& commands) {
  std::vector<std::string> names;
  for (const CompletionCommand& command : commands) {
    for (const auto& [name, values] : command.valued) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return absl::StrJoin(names, "|");
}

// Shell code that sets COMPREPLY for the value of a flag or a positional of this kind.
std::string BashWords(const std::vector<std::string>& words) {
  return absl::StrCat("COMPREPLY=($(compgen -W '", Words(words), "' -- \"$cur\"))");
}

std::string BashPositional(const CompletionCommand& command) {
  if (!command.subcommands.empty()) return BashWords(command.subcommands);
  if (!command.words.empty()) return BashWords(command.words);
  if (command.positional == "JOB") {
    return "COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" list --names 2>/dev/null)\" -- "
           "\"$cur\"))";
  }
  if (command.positional == "FILE") return "COMPREPLY=($(compgen -f -- \"$cur\"))";
  return ":";
}

std::string FishQuote(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishValue(const std::vector<std::string>& values) {
  return values.empty() ? " -r" : absl::StrCat(" -x -a ", FishQuote(Words(values)));
}

}  // namespace

std::vector<CompletionCommand> DescribeCommands(const CLI::App& app, const Context& context) {
  std::vector<CompletionCommand> commands;
  Describe(app, app, "", context, &commands);
  return commands;
}

std::string BashCompletion(const std::vector<CompletionCommand>& commands) {
  std::string paths;
  std::string values;
  std::string words;
  for (const CompletionCommand& command : commands) {
    if (!command.path.empty())
      absl::StrAppend(&paths, paths.empty() ? "" : "|", "'", command.path, "'");
    for (const auto& [flag, choices] : command.valued) {
      absl::StrAppend(
          &values, "    '", command.path, " ", flag, "') ",
          choices.empty() ? "COMPREPLY=($(compgen -f -- \"$cur\"))" : BashWords(choices),
          "; return ;;\n");
    }
    absl::StrAppend(&words, "    '", command.path, "') if [[ $cur == -* ]]; then ",
                    BashWords(command.flags), "; else ", BashPositional(command), "; fi ;;\n");
  }
  return absl::StrCat(
      "# bash completion of accelctl: source <(accelctl completion bash)\n"
      "_accelctl() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local path='' next word i skip=0\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    if ((skip)); then skip=0; continue; fi\n"
      "    case $word in ",
      ValuedPattern(commands),
      ") skip=1; continue ;; esac\n"
      "    next=\"${path:+$path }$word\"\n"
      "    case $next in ",
      paths,
      ") path=$next ;; esac\n"
      "  done\n"
      "  case \"$path $prev\" in\n",
      values,
      "  esac\n"
      "  case $path in\n",
      words,
      "  esac\n"
      "}\n"
      "complete -o filenames -o bashdefault -F _accelctl accelctl\n");
}

std::string ZshCompletion(const std::vector<CompletionCommand>& commands) {
  // zsh runs bash completions itself; one description of the commands serves both.
  return absl::StrCat(
      "# zsh completion of accelctl: source <(accelctl completion zsh)\n"
      "autoload -U +X compinit && compinit -u\n"
      "autoload -U +X bashcompinit && bashcompinit\n",
      BashCompletion(commands));
}

std::string FishCompletion(const std::vector<CompletionCommand>& commands) {
  std::string script =
      "# fish completion of accelctl: accelctl completion fish | source\n"
      "complete -c accelctl -f\n"
      "function __accelctl_at\n"
      "  set -l words (commandline -opc)\n"
      "  set -l plain\n"
      "  set -l skip 0\n"
      "  for word in $words[2..-1]\n"
      "    if test $skip = 1\n"
      "      set skip 0\n"
      "    else if string match -qr -- '^(";
  absl::StrAppend(&script, ValuedPattern(commands),
                  ")$' $word\n"
                  "      set skip 1\n"
                  "    else if not string match -q -- '-*' $word\n"
                  "      set -a plain $word\n"
                  "    end\n"
                  "  end\n"
                  "  set -l depth (count $argv)\n"
                  "  test $depth = 0; and test (count $plain) = 0; and return 0\n"
                  "  test $depth -gt 0; and test (count $plain) -ge $depth; and "
                  "test \"$plain[1..$depth]\" = \"$argv\"\n"
                  "end\n");
  for (const CompletionCommand& command : commands) {
    const std::string at =
        absl::StrCat("complete -c accelctl -n ", FishQuote("__accelctl_at " + command.path));
    for (const CompletionCommand& child : commands) {
      const std::string prefix = command.path.empty() ? "" : command.path + " ";
      for (const std::string& name : command.subcommands) {
        if (child.path != prefix + name) continue;
        const std::string group =
            absl::StrCat("__accelctl_at ", command.path, "; and not __fish_seen_subcommand_from ",
                         Words(command.subcommands));
        absl::StrAppend(&script, "complete -c accelctl -n ", FishQuote(group), " -a ", name, " -d ",
                        FishQuote(child.description), "\n");
      }
    }
    for (const std::string& flag : command.flags) {
      const bool is_long = flag.rfind("--", 0) == 0;
      const auto valued = std::find_if(command.valued.begin(), command.valued.end(),
                                       [&](const auto& v) { return v.first == flag; });
      absl::StrAppend(&script, at, is_long ? " -l " : " -s ", flag.substr(is_long ? 2 : 1),
                      valued == command.valued.end() ? "" : FishValue(valued->second), "\n");
    }
    if (command.positional == "FILE") absl::StrAppend(&script, at, " -F\n");
    if (command.positional == "JOB") {
      absl::StrAppend(&script, at, " -a '(accelctl list --names 2>/dev/null)'\n");
    }
    if (!command.words.empty()) {
      absl::StrAppend(&script, at, " -a ", FishQuote(Words(command.words)), "\n");
    }
  }
  return script;
}

}  // namespace accel::cli
