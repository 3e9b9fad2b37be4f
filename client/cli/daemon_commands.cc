// accelctl daemon start, stop and status.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/daemon_process.h"
#include "client/cli/human.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

namespace fs = std::filesystem;

struct StartOptions {
  std::string state_dir;
  std::string program;
  std::vector<std::string> listen;
  std::vector<std::string> data_roots;
  std::string metrics_address;
  std::vector<std::string> extra;
  double timeout_seconds = 30;

  bool HasDaemonOptions() const {
    return !listen.empty() || !data_roots.empty() || !metrics_address.empty() || !extra.empty();
  }
};

absl::StatusOr<fs::path> StateDir(const Context& context, const std::string& flag) {
  if (!flag.empty()) return fs::absolute(flag);
  return UserStateDir(context.io);
}

// NAME=PATH with an absolute PATH: the daemon's working folder is another. What is no NAME=PATH is
// left to the daemon's own check.
std::string AbsoluteRoot(const std::string& root) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(root, absl::MaxSplits('=', 1));
  if (parts.second.empty()) return root;
  return absl::StrCat(parts.first, "=", fs::absolute(parts.second).lexically_normal().string());
}

std::vector<std::string> DaemonArguments(const StartOptions& options, const fs::path& state_dir) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (options.listen.empty()) {
    add("--listen", absl::StrCat("unix:", (state_dir / "acceld.sock").string()));
  }
  for (const std::string& address : options.listen) add("--listen", address);
  for (const std::string& root : options.data_roots) add("--data_root", AbsoluteRoot(root));
  if (!options.metrics_address.empty()) add("--metrics_address", options.metrics_address);
  arguments.insert(arguments.end(), options.extra.begin(), options.extra.end());
  return arguments;
}

void PrintStarted(const Context& context, const DaemonFile& daemon, absl::string_view verb) {
  context.io.out << "acceld " << EscapeControls(daemon.version) << ' ' << verb << ", pid "
                 << daemon.pid << ", on "
                 << EscapeControls(absl::StrJoin(daemon.listen_addresses, " "));
  if (!daemon.metrics_address.empty()) {
    context.io.out << ", metrics on http://" << EscapeControls(daemon.metrics_address)
                   << "/metrics";
  }
  context.io.out << '\n';
}

absl::StatusOr<ExitCode> Start(const Context& context, const StartOptions& options) {
  DaemonOptions daemon;
  ACCEL_ASSIGN_OR_RETURN(daemon.state_dir, StateDir(context, options.state_dir));
  if (const auto running = RunningDaemon(daemon.state_dir); running.ok()) {
    if (options.HasDaemonOptions()) {
      return absl::FailedPreconditionError(
          absl::StrCat("acceld already runs in ", daemon.state_dir.string(), " (pid ", running->pid,
                       ") with options of its own; stop it first with: accelctl daemon stop"));
    }
    PrintStarted(context, *running, "already runs");
    return ExitCode::kOk;
  }
  daemon.program = options.program;
  if (options.program.empty()) {
    ACCEL_ASSIGN_OR_RETURN(daemon.program, FindAcceld(context.io));
  }
  daemon.arguments = DaemonArguments(options, daemon.state_dir);
  daemon.timeout = absl::Seconds(options.timeout_seconds);
  ACCEL_ASSIGN_OR_RETURN(const DaemonFile started, StartDaemon(context.io, daemon));
  PrintStarted(context, started, "started");
  const absl::StatusOr<fs::path> found_by_default = UserStateDir(context.io);
  if (!found_by_default.ok() || *found_by_default != daemon.state_dir) {
    context.Note(absl::StrCat("other commands find it after: export ACCEL_STATE_DIR=",
                              daemon.state_dir.string()));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Stop(const Context& context, const std::string& flag, double timeout) {
  ACCEL_ASSIGN_OR_RETURN(const fs::path state_dir, StateDir(context, flag));
  const absl::StatusOr<DaemonFile> running = RunningDaemon(state_dir);
  if (absl::IsNotFound(running.status())) {
    context.io.out << "no acceld runs in " << state_dir.string() << '\n';
    return ExitCode::kOk;
  }
  ACCEL_RETURN_IF_ERROR(running.status());
  ACCEL_RETURN_IF_ERROR(StopDaemon(running->pid, absl::Seconds(timeout)));
  context.io.out << "acceld stopped, pid " << running->pid << '\n';
  return ExitCode::kOk;
}

// As RunningDaemon; that none runs is UNAVAILABLE.
absl::StatusOr<DaemonFile> RunningDaemonAt(const fs::path& state_dir) {
  absl::StatusOr<DaemonFile> daemon = RunningDaemon(state_dir);
  if (!absl::IsNotFound(daemon.status())) return daemon;
  return absl::UnavailableError(absl::StrCat("no acceld runs in ", state_dir.string()));
}

// Why nothing answers is an answer to `status`, not an error of it.
absl::StatusOr<ExitCode> Status(Context& context, const std::string& state_dir) {
  if (!state_dir.empty()) {
    ACCEL_ASSIGN_OR_RETURN(const DaemonFile daemon, RunningDaemonAt(fs::absolute(state_dir)));
    context.address = daemon.listen_addresses.front();
  }
  absl::Status health;
  v1::Node node;
  const absl::StatusOr<std::unique_ptr<client::Client>> client = context.Connect();
  if (absl::IsInvalidArgument(client.status())) return client.status();
  health = client.ok() ? (*client)->CheckServing(absl::Seconds(5)) : client.status();
  if (health.ok()) {
    ACCEL_ASSIGN_OR_RETURN(node, (*client)->GetNode());
  }
  if (context.Format() == OutputFormat::kTable) {
    Table table;
    table.Add({"state", health.ok() ? Table::Cell("serving", Color::kGreen)
                                    : Table::Cell("not serving", Color::kRed)});
    table.Add({"address", context.used_address});
    if (health.ok()) {
      table.Add({"version", node.version()});
      table.Add({"pid", absl::StrCat(node.pid())});
      table.Add({"up for", HumanDuration(context.io.clock.Now() - ToTime(node.start_time()))});
      table.Add({"state folder", node.state_dir()});
      table.Add({"metrics", node.metrics_address()});
      table.Add({"ranks in use", absl::StrCat(node.ranks_in_use(), " of ", node.max_ranks())});
      table.Add({"queued jobs", absl::StrCat(node.queued_jobs())});
    }
    table.Print(context.io.out, context.color_out());
  } else if (health.ok()) {
    PrintMessage(context.io.out, context.Format(), node);
  }
  if (health.ok()) return ExitCode::kOk;
  return health;
}

void AddStart(CLI::App* daemon, Context& context) {
  CLI::App* start = daemon->add_subcommand(
      "start", "Start a daemon of your own in the background and wait until it serves");
  auto options = std::make_shared<StartOptions>();
  const auto repeatable = [&](const char* flag, std::vector<std::string>& values,
                              const char* description) {
    Repeatable(start->add_option(flag, values, description));
  };
  start->add_option("--state-dir", options->state_dir,
                    "Folder of its state (default $ACCEL_STATE_DIR, else "
                    "$XDG_STATE_HOME/accel, else ~/.local/state/accel)");
  repeatable("--listen", options->listen,
             "Address of the API, unix:PATH or IP:PORT on loopback (repeatable; default "
             "acceld.sock in the state folder)");
  repeatable("--data-root", options->data_roots, "Folder for data files, NAME=PATH (repeatable)");
  start->add_option(
      "--metrics-address", options->metrics_address,
      "Address of the Prometheus endpoint, IP:PORT on loopback, or off (default as acceld's)");
  start->add_option("--program", options->program,
                    "Path of acceld (default: beside accelctl, else on PATH)");
  start->add_option("--timeout", options->timeout_seconds, "Seconds until it must serve (30)")
      ->check(CLI::Range(0.1, 3600.0));
  start->add_option("ARGUMENTS", options->extra, "After --: more flags for acceld");
  SetCommand(start, context, [&context, options] { return Start(context, *options); });
}

void AddStop(CLI::App* daemon, Context& context) {
  CLI::App* stop = daemon->add_subcommand("stop", "Stop your daemon; its jobs go on");
  auto state_dir = std::make_shared<std::string>();
  auto timeout = std::make_shared<double>(60);
  stop->add_option("--state-dir", *state_dir, "Folder of its state, as for start");
  stop->add_option("--timeout", *timeout, "Seconds to wait for its end (60)")
      ->check(CLI::Range(0.0, 3600.0));
  SetCommand(stop, context,
             [&context, state_dir, timeout] { return Stop(context, *state_dir, *timeout); });
}

void AddStatus(CLI::App* daemon, Context& context) {
  CLI::App* status = daemon->add_subcommand("status", "Show whether the daemon serves");
  auto state_dir = std::make_shared<std::string>();
  status->add_option("--state-dir", *state_dir, "Look for it in this folder");
  SetCommand(status, context, [&context, state_dir] { return Status(context, *state_dir); });
}

}  // namespace

void AddDaemonCommands(CLI::App* app, Context& context) {
  CLI::App* daemon = app->add_subcommand("daemon", "Start, stop and look at a daemon");
  daemon->require_subcommand(1);
  AddStart(daemon, context);
  AddStop(daemon, context);
  AddStatus(daemon, context);
}

}  // namespace accel::cli
