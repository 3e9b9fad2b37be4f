// accelctl run, submit and validate.

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/follow.h"
#include "client/cli/human.h"
#include "client/cli/job_file.h"
#include "client/cli/output.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"

namespace accel::cli {
namespace {

struct SubmitOptions {
  std::string file;
  std::vector<std::string> overrides;
  std::string id;
  std::string request_id;
  bool validate_only = false;
};

void AddFileOptions(CLI::App* app, SubmitOptions* options) {
  app->add_option("FILE", options->file, "Job file in YAML or JSON; - reads standard input")
      ->required();
  Repeatable(
      app->add_option("--set", options->overrides, "Replace a value: path=value (repeatable)"))
      ->type_name("PATH=VALUE");
}

void AddIdOptions(CLI::App* app, SubmitOptions* options) {
  app->add_option("--id", options->id, "Name of the job; the node chooses one by default");
  app->add_option("--request-id", options->request_id,
                  "A UUID: a repeat with the same one returns the first answer");
}

absl::StatusOr<v1::Job> Create(Context& context, client::Client& client,
                               const SubmitOptions& options) {
  v1::CreateJobRequest request;
  ACCEL_ASSIGN_OR_RETURN(*request.mutable_spec(),
                         ReadJobFile(context.io, options.file, options.overrides));
  if (!options.id.empty()) ACCEL_RETURN_IF_ERROR(JobName(context, options.id).status());
  request.set_job_id(std::string(absl::StripPrefix(options.id, "jobs/")));
  request.set_request_id(options.request_id);
  request.set_validate_only(options.validate_only);
  ACCEL_ASSIGN_OR_RETURN(v1::Job job, client.CreateJob(std::move(request)));
  context.PrintWarnings(job);
  return job;
}

void PrintValid(Context& context, const v1::Job& job) {
  const OutputFormat format = context.Format();
  if (format != OutputFormat::kTable) return PrintMessage(context.io.out, format, job);
  const v1::JobSpec& spec = job.spec();
  const int ranks = spec.has_num_processes() ? spec.num_processes() : 1;
  context.io.out << "valid: " << ranks << (ranks == 1 ? " rank on " : " ranks on ")
                 << (spec.has_device() ? EscapeControls(spec.device()) : "cpu")
                 << "\naccelerator, every default filled in:\n";
  PrintFields(context.io.out, job.resolved_accelerator(), context.color_out());
}

absl::StatusOr<ExitCode> Submit(Context& context, const SubmitOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const v1::Job job, Create(context, *client, options));
  const OutputFormat format = context.Format();
  if (options.validate_only) {
    PrintValid(context, job);
  } else if (format == OutputFormat::kTable) {
    context.io.out << EscapeControls(job.name()) << '\n';
  } else {
    PrintMessage(context.io.out, format, job);
  }
  return ExitCode::kOk;
}

// The newest checkpoint is a convenience: a job that was followed has its outcome without it.
void PrintCheckpoint(Context& context, client::Client& client, const std::string& name) {
  v1::ListCheckpointsRequest request;
  request.set_parent(name);
  request.set_page_size(1);
  const absl::StatusOr<v1::ListCheckpointsResponse> list = client.ListCheckpoints(request);
  if (!list.ok() || list->checkpoints().empty()) return;
  const v1::Checkpoint& checkpoint = list->checkpoints(0);
  context.io.out << "newest checkpoint: " << EscapeControls(checkpoint.name()) << " (step "
                 << checkpoint.step() << ", " << HumanBytes(checkpoint.bytes()) << ") in "
                 << EscapeControls(checkpoint.path()) << '\n';
}

absl::StatusOr<ExitCode> Run(Context& context, const SubmitOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const v1::Job job, Create(context, *client, options));
  ACCEL_ASSIGN_OR_RETURN(const std::string name, JobName(context, job.name()));
  context.Note(absl::StrCat("submitted ", name));
  ACCEL_ASSIGN_OR_RETURN(const FollowOutcome outcome, FollowJob(context, *client, name));
  if (outcome.detached) {
    context.Note(absl::StrCat("left ", name, ", which was asked to stop; follow it with: ",
                              "accelctl watch ", context.job));
    return ExitCode::kInterrupted;
  }
  const OutputFormat format = context.Format();
  if (format != OutputFormat::kTable) {
    PrintMessage(context.io.out, format, outcome.job);
  } else {
    context.io.out << OutcomeLine(outcome.job) << '\n';
    PrintCheckpoint(context, *client, name);
  }
  if (outcome.job.state() == v1::Job::FAILED) {
    context.Note(absl::StrCat("see what it wrote with: accelctl logs ", context.job));
  }
  return ExitCodeOf(outcome.job.state());
}

}  // namespace

void AddSubmitCommands(CLI::App* app, Context& context) {
  CLI::App* run = app->add_subcommand("run", "Submit a job and follow it to its end");
  auto run_options = std::make_shared<SubmitOptions>();
  AddFileOptions(run, run_options.get());
  AddIdOptions(run, run_options.get());
  run->footer(
      "Interrupted once (Ctrl-C), it asks the job to stop in order; interrupted twice, it leaves\n"
      "the job alone. The exit code is the job's outcome.");
  SetCommand(run, context, [&context, run_options] { return Run(context, *run_options); });

  CLI::App* submit = app->add_subcommand("submit", "Submit a job and print its name");
  auto submit_options = std::make_shared<SubmitOptions>();
  AddFileOptions(submit, submit_options.get());
  AddIdOptions(submit, submit_options.get());
  submit->add_flag("--validate-only", submit_options->validate_only, "Only check the job");
  SetCommand(submit, context,
             [&context, submit_options] { return Submit(context, *submit_options); });

  CLI::App* validate =
      app->add_subcommand("validate", "Check a job on the node, without running it");
  auto validate_options = std::make_shared<SubmitOptions>();
  validate_options->validate_only = true;
  AddFileOptions(validate, validate_options.get());
  SetCommand(validate, context,
             [&context, validate_options] { return Submit(context, *validate_options); });
}

}  // namespace accel::cli
