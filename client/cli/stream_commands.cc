// accelctl watch, logs and metrics.

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/follow.h"
#include "client/cli/output.h"
#include "client/cli/record_text.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

struct StreamOptions {
  std::string job;
  bool follow = false;
  int64_t after = 0;
};

struct LogOptions : StreamOptions {
  std::vector<int32_t> ranks;
  bool timestamps = false;
};

struct MetricOptions : StreamOptions {
  std::vector<std::string> keys;
  bool csv = false;
};

template <typename Request>
absl::StatusOr<Request> MakeRequest(Context& context, const StreamOptions& options) {
  Request request;
  ACCEL_ASSIGN_OR_RETURN(*request.mutable_name(), JobName(context, options.job));
  request.mutable_range()->set_follow(options.follow);
  request.mutable_range()->set_after_sequence(options.after);
  return request;
}

// Passes every row to `print` until the stream ends or nobody reads standard output any more.
template <typename Record, typename Print>
absl::Status PrintRows(Context& context, client::RecordStream<Record>& stream, Print print) {
  while (context.io.out.good()) {
    ACCEL_ASSIGN_OR_RETURN(const std::optional<Record> record, stream.Next());
    if (!record.has_value()) break;
    print(*record);
  }
  return absl::OkStatus();
}

// Prints rows as `line` makes them, or as JSON or YAML.
template <typename Record, typename Line>
absl::Status PrintStream(Context& context, client::RecordStream<Record>& stream, Line line) {
  return PrintRows(context, stream, [&](const Record& record) {
    if (context.Format() == OutputFormat::kTable) {
      context.io.out << context.Shown(line(record)) << std::endl;
    } else {
      PrintRow(context.io.out, context.Format(), record);
    }
  });
}

absl::StatusOr<ExitCode> Watch(Context& context, const StreamOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(auto request, MakeRequest<v1::StreamEventsRequest>(context, options));
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  const auto stream = client->StreamEvents(request);
  ACCEL_RETURN_IF_ERROR(PrintStream(context, *stream, [&](const v1::EventRecord& event) {
    return EventLine(event, context.io.zone);
  }));
  if (!context.io.out.good() || !options.follow) return ExitCode::kOk;
  v1::GetJobRequest get;
  get.set_name(request.name());
  ACCEL_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(get));
  if (context.Format() == OutputFormat::kTable) context.io.out << OutcomeLine(job) << '\n';
  return ExitCodeOf(job.state());
}

absl::StatusOr<ExitCode> Logs(Context& context, const LogOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(auto request, MakeRequest<v1::StreamLogsRequest>(context, options));
  for (int32_t rank : options.ranks) request.add_ranks(rank);
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  const auto stream = client->StreamLogs(request);
  ACCEL_RETURN_IF_ERROR(PrintStream(context, *stream, [&](const v1::LogRecord& record) {
    return LogLine(record, options.timestamps, context.io.zone);
  }));
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Metrics(Context& context, const MetricOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(auto request, MakeRequest<v1::StreamMetricsRequest>(context, options));
  for (const std::string& key : options.keys) request.add_keys(key);
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  const auto stream = client->StreamMetrics(request);
  if (options.csv) {
    bool first = true;
    ACCEL_RETURN_IF_ERROR(PrintRows(context, *stream, [&](const v1::MetricRecord& record) {
      if (first) context.io.out << kCsvHeader << '\n';
      first = false;
      context.io.out << CsvRows(record) << std::flush;
    }));
    if (first) context.io.out << kCsvHeader << '\n';
  } else {
    ACCEL_RETURN_IF_ERROR(PrintStream(context, *stream, MetricLine));
  }
  return ExitCode::kOk;
}

void AddStreamOptions(CLI::App* app, StreamOptions* options) {
  AddJobArgument(app, options->job);
  app->add_option("--after", options->after, "Start after this sequence number (default 0: all)")
      ->check(CLI::NonNegativeNumber);
}

void AddFollow(CLI::App* app, StreamOptions* options) {
  app->add_flag("-f,--follow", options->follow, "Go on with new rows until the job ends");
}

void AddWatch(CLI::App* app, Context& context) {
  CLI::App* watch = app->add_subcommand(
      "watch", "Print a job's events until it ends; the exit code is its outcome");
  auto options = std::make_shared<StreamOptions>();
  options->follow = true;
  AddStreamOptions(watch, options.get());
  watch->add_flag("!--no-follow", options->follow, "Stop at the last event there is");
  SetCommand(watch, context, [&context, options] { return Watch(context, *options); });
}

void AddLogs(CLI::App* app, Context& context) {
  CLI::App* logs = app->add_subcommand("logs", "Print what a job's processes wrote");
  auto options = std::make_shared<LogOptions>();
  AddStreamOptions(logs, options.get());
  AddFollow(logs, options.get());
  Repeatable(logs->add_option("--rank", options->ranks, "Only this rank (repeatable)"))
      ->check(CLI::NonNegativeNumber);
  logs->add_flag("-t,--timestamps", options->timestamps, "Put the time before each line");
  SetCommand(logs, context, [&context, options] { return Logs(context, *options); });
}

void AddMetrics(CLI::App* app, Context& context) {
  CLI::App* metrics = app->add_subcommand("metrics", "Print a job's metrics");
  auto options = std::make_shared<MetricOptions>();
  AddStreamOptions(metrics, options.get());
  AddFollow(metrics, options.get());
  Repeatable(metrics->add_option("--key", options->keys,
                                 "Only this value, as in train/loss (repeatable)"));
  metrics->add_flag("--csv", options->csv, "As CSV, one line for each value");
  metrics->footer(absl::StrCat("Columns of --csv: ", kCsvHeader,
                               "\nThe rank is empty for what all ranks measured together."));
  SetCommand(metrics, context, [&context, options] { return Metrics(context, *options); });
}

}  // namespace

void AddStreamCommands(CLI::App* app, Context& context) {
  AddWatch(app, context);
  AddLogs(app, context);
  AddMetrics(app, context);
}

}  // namespace accel::cli
