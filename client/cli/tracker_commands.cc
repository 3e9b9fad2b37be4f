// accelctl trackers.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/human.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

Table::Cell StateCell(v1::TrackerStatus::State state) {
  std::string name = v1::TrackerStatus::State_Name(state);
  if (name.empty()) name = absl::StrCat("STATE ", static_cast<int>(state));
  switch (state) {
    case v1::TrackerStatus::FINISHED:
      return {name, Color::kGreen};
    case v1::TrackerStatus::FAILING:
      return {name, Color::kYellow};
    case v1::TrackerStatus::STOPPED:
      return {name, Color::kRed};
    default:
      return {name};
  }
}

void Print(Context& context, const std::string& job,
           const std::vector<v1::TrackerStatus>& trackers) {
  if (context.Format() != OutputFormat::kTable) {
    PrintList(context.io.out, context.Format(), "trackers", Pointers(trackers));
    return;
  }
  if (trackers.empty()) return context.Note(absl::StrCat(job, " has no trackers"));
  Table table({"TRACKER", "STATE", "STEP", "ROWS", "LAG", "FAILURES", "LOCATION", "LAST ERROR"});
  for (const v1::TrackerStatus& tracker : trackers) {
    table.Add({tracker.name(), StateCell(tracker.state()),
               tracker.has_last_step() ? absl::StrCat(tracker.last_step()) : "",
               absl::StrCat(tracker.rows()), absl::StrCat(tracker.lag_rows()),
               absl::StrCat(tracker.total_failures()), tracker.location(), tracker.last_error()});
  }
  table.Print(context.io.out, context.color_out());
}

absl::StatusOr<ExitCode> List(Context& context, const std::string& job) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const std::vector<v1::TrackerStatus> trackers, client->ListTrackers(job));
  Print(context, job, trackers);
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Sync(Context& context, const std::string& job, double timeout) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  v1::SyncTrackersRequest request;
  request.set_parent(job);
  request.set_timeout_seconds(timeout);
  ACCEL_ASSIGN_OR_RETURN(const std::vector<v1::TrackerStatus> trackers,
                         client->SyncTrackers(std::move(request)));
  Print(context, job, trackers);
  for (const v1::TrackerStatus& tracker : trackers) {
    if (tracker.state() != v1::TrackerStatus::FINISHED) return ExitCode::kOther;
  }
  return ExitCode::kOk;
}

}  // namespace

void AddTrackerCommands(CLI::App* app, Context& context) {
  CLI::App* trackers = app->add_subcommand(
      "trackers",
      "Show a job's trackers, or send what an ended job's have not got: trackers JOB, "
      "trackers sync JOB");
  auto arguments = std::make_shared<std::vector<std::string>>();
  auto timeout = std::make_shared<double>(60);
  trackers->add_option("JOB", *arguments, "The job, after \"sync\" to send what is left")
      ->required()
      ->expected(1, 2);
  trackers->add_option("--timeout", *timeout, "Longest time of a sync in seconds")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  SetCommand(trackers, context, [&context, arguments, timeout]() -> absl::StatusOr<ExitCode> {
    const bool sync = arguments->size() == 2;
    if (sync && arguments->front() != "sync") {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", arguments->front(), "\" is no command of trackers; allowed: sync"));
    }
    ACCEL_ASSIGN_OR_RETURN(const std::string name, JobName(context, arguments->back()));
    return sync ? Sync(context, name, *timeout) : List(context, name);
  });
}

}  // namespace accel::cli
