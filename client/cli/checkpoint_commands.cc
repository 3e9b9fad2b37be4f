// accelctl checkpoints.

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/human.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

void PrintCheckpoints(const Context& context, const std::vector<v1::Checkpoint>& checkpoints) {
  Table table({"NAME", "STEP", "EPOCH", "SIZE", "CREATED", "PATH"});
  for (const v1::Checkpoint& checkpoint : checkpoints) {
    table.Add({checkpoint.name(), absl::StrCat(checkpoint.step()), absl::StrCat(checkpoint.epoch()),
               HumanBytes(checkpoint.bytes()), HumanTime(checkpoint.create_time(), context.io.zone),
               checkpoint.path()});
  }
  table.Print(context.io.out, context.color_out());
}

absl::StatusOr<ExitCode> List(Context& context, const std::string& name) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> checkpoints,
                         client->ListAllCheckpoints(name));
  if (context.Format() != OutputFormat::kTable) {
    PrintList(context.io.out, context.Format(), "checkpoints", Pointers(checkpoints));
  } else if (checkpoints.empty()) {
    context.Note(absl::StrCat(name, " has no complete checkpoint"));
  } else {
    PrintCheckpoints(context, checkpoints);
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Create(Context& context, const std::string& name) {
  v1::CreateCheckpointRequest request;
  request.set_parent(name);
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_RETURN_IF_ERROR(client->CreateCheckpoint(std::move(request)));
  context.Note(absl::StrCat("asked ", name, " for a checkpoint; its completion is an event: ",
                            "accelctl watch ", context.job));
  return ExitCode::kOk;
}

}  // namespace

void AddCheckpointCommands(CLI::App* app, Context& context) {
  CLI::App* checkpoints = app->add_subcommand("checkpoints", "List a job's checkpoints");
  auto job = std::make_shared<std::string>();
  auto create = std::make_shared<bool>(false);
  AddJobArgument(checkpoints, *job);
  checkpoints->add_flag("--create", *create, "Ask the running job for a checkpoint instead");
  SetCommand(checkpoints, context, [&context, job, create]() -> absl::StatusOr<ExitCode> {
    ACCEL_ASSIGN_OR_RETURN(const std::string name, JobName(context, *job));
    return *create ? Create(context, name) : List(context, name);
  });
}

}  // namespace accel::cli
