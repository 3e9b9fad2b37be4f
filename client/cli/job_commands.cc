// accelctl get, list, cancel and delete.

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/human.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

Color StateColor(v1::Job::State state) {
  switch (state) {
    case v1::Job::SUCCEEDED:
      return Color::kGreen;
    case v1::Job::FAILED:
      return Color::kRed;
    case v1::Job::RUNNING:
      return Color::kBold;
    default:
      return Color::kYellow;
  }
}

// "3/10", or "3" where the total is not known.
std::string OfTotal(int64_t done, int64_t total) {
  return total > 0 ? absl::StrCat(std::min(done, total), "/", total) : absl::StrCat(done);
}

std::string StepsOf(const v1::Job& job) {
  return job.has_progress() ? OfTotal(job.progress().step(), job.progress().total_steps()) : "";
}

std::string EpochOf(const v1::Job& job) {
  if (!job.has_progress()) return "";
  return OfTotal(job.progress().epoch() + 1, job.progress().total_epochs());
}

// From its start to its end, or to now.
std::string RunTime(const v1::Job& job, const Clock& clock) {
  if (!job.has_start_time()) return "";
  const absl::Time end = job.has_end_time() ? ToTime(job.end_time()) : clock.Now();
  return HumanDuration(end - ToTime(job.start_time()));
}

int RanksOf(const v1::Job& job) {
  return job.spec().has_num_processes() ? job.spec().num_processes() : 1;
}

bool HasMachines(const v1::Job& job) { return job.spec().multi_node().num_machines() > 1; }

// `1 of 2`, counted from 0 as machine_rank is.
std::string MachineOf(const v1::Job& job) {
  if (!HasMachines(job)) return "";
  const v1::MultiNodeSpec& machines = job.spec().multi_node();
  return absl::StrCat(machines.machine_rank(), " of ", machines.num_machines());
}

// That of the last attempt; the job's before the first. Empty where neither is known.
std::string BatchSizeOf(const v1::Job& job) {
  int size = job.spec().data().batch_size();
  if (job.attempts_size() > 0 && job.attempts().rbegin()->batch_size() > 0) {
    size = job.attempts().rbegin()->batch_size();
  }
  return size > 0 ? absl::StrCat(size) : "";
}

void AddAttempt(const v1::Attempt& attempt, Table* table) {
  std::string text;
  if (attempt.batch_size() > 0) absl::StrAppend(&text, "batch size ", attempt.batch_size(), ", ");
  absl::StrAppend(&text, "pids");
  for (const v1::Attempt::Worker& worker : attempt.workers()) {
    absl::StrAppend(&text, " ", worker.pid());
  }
  if (attempt.has_failure()) absl::StrAppend(&text, ": ", attempt.failure().message());
  table->Add({absl::StrCat("attempt ", attempt.number()), text});
}

void AddFailure(const v1::Failure& failure, Table* table) {
  table->Add({"failure", {failure.message(), Color::kRed}});
  table->Add({"cause", absl::AsciiStrToLower(v1::Failure::Cause_Name(failure.cause()))});
  for (const std::string& later : failure.later()) table->Add({"then", later});
}

void PrintJob(const Context& context, const v1::Job& job) {
  Table table;
  table.Add({"name", job.name()});
  if (job.spec().has_display_name()) table.Add({"display name", job.spec().display_name()});
  table.Add({"state", {StateName(job.state()), StateColor(job.state())}});
  if (job.has_failure()) AddFailure(job.failure(), &table);
  if (job.has_early_stopped()) {
    table.Add({"stopped early", absl::StrCat("at step ", job.early_stopped().step(), ": ",
                                             job.early_stopped().reason())});
  }
  table.Add({"ranks", absl::StrCat(RanksOf(job), " on ",
                                   job.spec().has_device() ? job.spec().device() : "cpu")});
  if (HasMachines(job)) table.Add({"machine", MachineOf(job)});
  if (!BatchSizeOf(job).empty()) table.Add({"batch size", BatchSizeOf(job)});
  table.Add({"step", StepsOf(job)});
  table.Add({"epoch", EpochOf(job)});
  table.Add({"created", HumanTime(job.create_time(), context.io.zone)});
  table.Add({"started", HumanTime(job.start_time(), context.io.zone)});
  table.Add({"ended", HumanTime(job.end_time(), context.io.zone)});
  table.Add({"run time", RunTime(job, context.io.clock)});
  for (const v1::Attempt& attempt : job.attempts()) AddAttempt(attempt, &table);
  for (const auto& [key, value] : job.spec().labels()) table.Add({"label " + key, value});
  for (const std::string& warning : job.warnings()) {
    table.Add({"warning", {warning, Color::kYellow}});
  }
  table.Print(context.io.out, context.color_out());
}

absl::StatusOr<ExitCode> Get(Context& context, const std::string& reference) {
  v1::GetJobRequest request;
  ACCEL_ASSIGN_OR_RETURN(*request.mutable_name(), JobName(context, reference));
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(request));
  if (context.Format() == OutputFormat::kTable) {
    PrintJob(context, job);
  } else {
    PrintMessage(context.io.out, context.Format(), job);
  }
  return ExitCode::kOk;
}

void PrintJobs(const Context& context, const std::vector<v1::Job>& jobs) {
  Table table({"NAME", "STATE", "STEP", "EPOCH", "RANKS", "MACHINE", "BATCH", "ATTEMPTS", "CREATED",
               "RUN TIME"});
  for (const v1::Job& job : jobs) {
    table.Add({std::string(absl::StripPrefix(job.name(), "jobs/")),
               {StateName(job.state()), StateColor(job.state())},
               StepsOf(job),
               EpochOf(job),
               absl::StrCat(RanksOf(job)),
               MachineOf(job),
               BatchSizeOf(job),
               absl::StrCat(job.attempts_size()),
               HumanTime(job.create_time(), context.io.zone),
               RunTime(job, context.io.clock)});
  }
  table.Print(context.io.out, context.color_out());
}

absl::StatusOr<ExitCode> List(Context& context, const std::vector<std::string>& state_names,
                              bool names_only) {
  std::vector<v1::Job::State> states;
  for (const std::string& name : state_names) {
    v1::Job::State_Parse(name, &states.emplace_back());
  }
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, client->ListAllJobs(states));
  if (names_only) {
    for (const v1::Job& job : jobs)
      context.io.out << absl::StripPrefix(job.name(), "jobs/") << '\n';
  } else if (context.Format() != OutputFormat::kTable) {
    PrintList(context.io.out, context.Format(), "jobs", Pointers(jobs));
  } else if (jobs.empty()) {
    context.Note("no jobs; submit one with: accelctl submit FILE");
  } else {
    PrintJobs(context, jobs);
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Cancel(Context& context, const std::string& reference,
                                std::optional<double> grace_seconds) {
  v1::CancelJobRequest request;
  ACCEL_ASSIGN_OR_RETURN(*request.mutable_name(), JobName(context, reference));
  if (grace_seconds.has_value()) request.set_grace_seconds(*grace_seconds);
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const v1::Job job, client->CancelJob(std::move(request)));
  if (context.Format() == OutputFormat::kTable) {
    context.io.out << EscapeControls(job.name()) << ' ' << StateName(job.state()) << '\n';
  } else {
    PrintMessage(context.io.out, context.Format(), job);
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Delete(Context& context, const std::string& reference) {
  v1::DeleteJobRequest request;
  ACCEL_ASSIGN_OR_RETURN(const std::string name, JobName(context, reference));
  request.set_name(name);
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_RETURN_IF_ERROR(client->DeleteJob(std::move(request)));
  if (context.Format() == OutputFormat::kTable) context.io.out << name << " deleted\n";
  return ExitCode::kOk;
}

void AddList(CLI::App* app, Context& context) {
  CLI::App* list = app->add_subcommand("list", "List the jobs, newest first");
  auto states = std::make_shared<std::vector<std::string>>();
  auto names_only = std::make_shared<bool>(false);
  WithChoices(
      Repeatable(list->add_option("--state", *states, "Only jobs in this state (repeatable)")),
      context,
      {"QUEUED", "STARTING", "RUNNING", "PAUSING", "PAUSED", "STOPPING", "SUCCEEDED", "FAILED",
       "CANCELLED"});
  list->add_flag("--names", *names_only, "Print names only, one a line");
  SetCommand(list, context,
             [&context, states, names_only] { return List(context, *states, *names_only); });
}

}  // namespace

void AddJobCommands(CLI::App* app, Context& context) {
  CLI::App* get = app->add_subcommand("get", "Show one job");
  auto get_job = std::make_shared<std::string>();
  AddJobArgument(get, *get_job);
  SetCommand(get, context, [&context, get_job] { return Get(context, *get_job); });

  AddList(app, context);

  CLI::App* cancel = app->add_subcommand("cancel", "Ask a job to stop");
  auto cancel_job = std::make_shared<std::string>();
  auto grace = std::make_shared<std::optional<double>>();
  AddJobArgument(cancel, *cancel_job);
  cancel->add_option("--grace", *grace, "Seconds before it is stopped by force (default 30)")
      ->check(CLI::Range(0.0, 3600.0));
  SetCommand(cancel, context,
             [&context, cancel_job, grace] { return Cancel(context, *cancel_job, *grace); });

  CLI::App* remove = app->add_subcommand("delete", "Remove an ended job with all its files");
  auto remove_job = std::make_shared<std::string>();
  AddJobArgument(remove, *remove_job);
  SetCommand(remove, context, [&context, remove_job] { return Delete(context, *remove_job); });
}

}  // namespace accel::cli
