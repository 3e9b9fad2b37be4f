#include "client/cli/context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/human.h"
#include "client/cli/places.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"

namespace accel::cli {

absl::StatusOr<std::unique_ptr<client::Client>> Context::Connect() {
  ACCEL_ASSIGN_OR_RETURN(used_address, FindAddress(io, address));
  client::ClientOptions options;
  options.user_agent = "accelctl/" ACCEL_VERSION;
  options.resume.observer = [this](const client::StreamInterruption& interruption) {
    Note(absl::StrCat("connection lost after row ", interruption.sequence, ", try ",
                      interruption.attempt, " to resume in ", HumanDuration(interruption.delay)));
  };
  return client::Client::Connect(used_address, options);
}

OutputFormat Context::Format(OutputFormat fallback) const {
  if (output == "json") return OutputFormat::kJson;
  if (output == "yaml") return OutputFormat::kYaml;
  if (output == "table") return OutputFormat::kTable;
  return fallback;
}

std::string Context::Shown(absl::string_view text) const {
  return io.out_is_terminal ? EscapeControls(text) : std::string(text);
}

void Context::Note(absl::string_view text) const {
  const std::string line = absl::StrCat("accelctl: ", EscapeControls(text));
  if (note_sink) {
    note_sink(line);
  } else {
    io.err << line << std::endl;
  }
}

void Context::PrintWarnings(const v1::Job& job) const {
  for (const std::string& warning : job.warnings()) {
    io.err << "accelctl: " << Colored("warning:", Color::kYellow, color_err()) << ' '
           << EscapeControls(warning) << '\n';
  }
}

void SetCommand(CLI::App* app, Context& context, Command command) {
  app->callback([&context, command = std::move(command)] { context.command = command; });
}

CLI::Option* WithChoices(CLI::Option* option, Context& context, std::vector<std::string> values) {
  option->transform(CLI::IsMember(values, CLI::ignore_case));
  context.choices[option] = std::move(values);
  return option;
}

CLI::Option* Repeatable(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->take_all();
}

CLI::Option* AddJobArgument(CLI::App* app, std::string& job) {
  return app->add_option("JOB", job, "Name of the job: mnist or jobs/mnist")->required();
}

absl::StatusOr<std::string> JobName(Context& context, const std::string& reference) {
  const absl::string_view id = absl::StripPrefix(reference, "jobs/");
  if (!config::IsValidJobId(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", reference,
                     "\" is no job's name: lower-case letters, digits and \"-\", starting with a "
                     "letter and not ending with \"-\", at most 63 characters"));
  }
  context.job = std::string(id);
  return absl::StrCat("jobs/", id);
}

}  // namespace accel::cli
