#include "client/cli/report.h"

#include "absl/strings/str_cat.h"
#include "client/call_status.h"
#include "client/cli/human.h"
#include "client/cli/table.h"

namespace accel::cli {
namespace {

// Empty where there is nothing to advise.
std::string Advice(const Context& context, const absl::Status& status) {
  const std::string job = context.job.empty() ? "JOB" : context.job;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (!context.address.empty() || !context.io.Env("ACCEL_ADDRESS").empty()) {
        return absl::StrCat("check the address (", context.used_address,
                            "), or start a daemon with: accelctl daemon start");
      }
      return "start one with: accelctl daemon start";
    case absl::StatusCode::kDeadlineExceeded:
      return "look at the daemon with: accelctl daemon status";
    case absl::StatusCode::kInvalidArgument:
      return client::ViolationsOf(status).empty()
                 ? "see: accelctl --help"
                 : "correct these fields, then check again with: accelctl validate FILE";
    case absl::StatusCode::kNotFound:
      return "see which jobs there are with: accelctl list";
    case absl::StatusCode::kAlreadyExists:
      return absl::StrCat("choose another --id, or remove the old job with: accelctl delete ", job);
    case absl::StatusCode::kFailedPrecondition:
      return context.job.empty() ? "" : absl::StrCat("see its state with: accelctl get ", job);
    case absl::StatusCode::kResourceExhausted:
      return "try again later; see what runs with: accelctl list --state RUNNING";
    case absl::StatusCode::kUnimplemented:
      return "leave it out, or use a daemon that has it; see its version with: accelctl node";
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return "see the daemon's log, acceld.log in its state folder (accelctl node)";
    default:
      return "";
  }
}

}  // namespace

ExitCode ReportError(const Context& context, const absl::Status& status) {
  std::ostream& err = context.io.err;
  const auto violations = client::ViolationsOf(status);
  std::string what(status.message());
  if (status.code() == absl::StatusCode::kUnavailable && !context.used_address.empty()) {
    what = absl::StrCat("daemon at ", context.used_address, " does not answer: ", what);
  }
  if (!violations.empty()) {
    what = violations.size() == 1 ? "1 field is invalid"
                                  : absl::StrCat(violations.size(), " fields are invalid");
  }
  if (what.empty()) what = absl::StatusCodeToString(status.code());
  err << "accelctl: " << Colored("error:", Color::kRed, context.color_err()) << ' '
      << EscapeControls(what) << '\n';
  for (const auto& [field, description] : violations) {
    err << EscapeControls(field) << ": " << EscapeControls(description) << '\n';
  }
  if (const std::string advice = Advice(context, status); !advice.empty()) {
    err << "accelctl: " << advice << '\n';
  }
  err.flush();
  return ExitCodeOf(status);
}

}  // namespace accel::cli
