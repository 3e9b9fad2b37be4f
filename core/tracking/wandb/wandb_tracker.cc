#include "core/tracking/wandb/wandb_tracker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"
#include "core/tracking/run_identity.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::wandb::RunRecord;

// What the service takes in a row.
constexpr size_t kMaxRowBytes = 10383360;
// The service's keys are longer.
constexpr size_t kShortestKey = 40;
constexpr size_t kRunIdLetters = 8;

double Seconds(absl::Time time) { return static_cast<double>(absl::ToUnixMicros(time)) / 1e6; }

int ExitCode(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return 0;
    case RunOutcome::kFailed:
      return 1;
    case RunOutcome::kCancelled:
      return 255;
  }
  return 1;
}

RunRecord DescribeRun(const accel::v1::WandBTracker& spec, const TrackerContext& context) {
  const TrackerSettings& settings = context.settings;
  RunRecord run;
  run.set_run_id(spec.has_id() ? spec.id() : DerivedName(context.job_uid, "wandb", kRunIdLetters));
  run.set_project(context.project);
  run.set_entity(settings.Choose(spec.entity(), "WANDB_ENTITY"));
  run.set_display_name(settings.Choose(spec.name(), "WANDB_NAME", context.job_id));
  run.set_run_group(settings.Choose(spec.group(), "WANDB_RUN_GROUP"));
  run.set_job_type(settings.Choose(spec.job_type(), "WANDB_JOB_TYPE"));
  run.set_notes(settings.Choose(spec.notes(), "WANDB_NOTES"));
  *run.mutable_tags() = spec.tags();
  if (spec.tags().empty()) {
    const std::string tags = settings.Choose("", "WANDB_TAGS");
    for (const absl::string_view tag : absl::StrSplit(tags, ',', absl::SkipWhitespace())) {
      run.add_tags(std::string(tag));
    }
  }
  run.set_host(context.host_name);
  run.mutable_start_time()->set_seconds(absl::ToUnixSeconds(context.create_time));
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracker>> WandBTracker::Make(const accel::v1::WandBTracker& spec,
                                                            const TrackerContext& context) {
  Options options;
  const std::string mode = context.settings.Choose(spec.mode(), "WANDB_MODE", "online");
  if (mode == "online" || mode == "run") {
    options.mode = Mode::kOnline;
  } else if (mode == "offline" || mode == "dryrun") {
    options.mode = Mode::kOffline;
  } else if (mode == "disabled") {
    options.mode = Mode::kDisabled;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "wandb mode \"", mode, "\" is not allowed; allowed: online, offline, disabled"));
  }
  options.folder = context.folder / "wandb";
  options.run = DescribeRun(spec, context);
  options.base_url =
      context.settings.Choose(spec.base_url(), "WANDB_BASE_URL", "https://api.wandb.ai");
  options.api_key_secret = spec.has_api_key_secret() ? spec.api_key_secret() : "WANDB_API_KEY";
  return std::make_unique<WandBTracker>(std::move(options), context);
}

WandBTracker::WandBTracker(Options options, const TrackerContext& context)
    : options_(std::move(options)),
      context_(context),
      start_time_(absl::FromUnixSeconds(options_.run.start_time().seconds())) {}

std::filesystem::path WandBTracker::RunFolder() const {
  const std::string stamp = absl::FormatTime("%Y%m%d_%H%M%S", start_time_, absl::LocalTimeZone());
  return options_.folder / "wandb" /
         absl::StrCat(options_.mode == Mode::kOffline ? "offline-run-" : "run-", stamp, "-",
                      options_.run.run_id());
}

std::string WandBTracker::location() const {
  if (options_.mode == Mode::kDisabled) return "";
  if (stream_ != nullptr && !stream_->location().empty()) return stream_->location();
  return RunFolder().string();
}

std::optional<int64_t> WandBTracker::held_from() const {
  if (!open_.has_value()) return std::nullopt;
  return open_->first_sequence;
}

absl::Status WandBTracker::OpenStream() {
  if (stream_ != nullptr) return absl::OkStatus();
  ACCEL_ASSIGN_OR_RETURN(const std::string key,
                         context_.settings.RequireSecret(options_.api_key_secret));
  if (key.size() < kShortestKey) {
    return Permanent(absl::UnauthenticatedError(
        absl::StrCat("the secret ", options_.api_key_secret, " is no key of W&B: it has ",
                     key.size(), " characters, a key at least ", kShortestKey)));
  }
  auto stream = std::make_unique<WandBStream>(JsonApi(
      context_.make_http(HttpOptions()), options_.base_url, {BasicAuthorization("api", key)}));
  ACCEL_ASSIGN_OR_RETURN(const int64_t lines, stream->Open(options_.run));
  // Where this job's own lines begin is written down before the first of them is sent: a run that
  // goes on has others before them.
  const std::filesystem::path base = options_.folder / "first_line";
  const absl::StatusOr<std::string> kept = context_.files->Read(base);
  if (kept.ok() && absl::SimpleAtoi(*kept, &base_line_)) {
    first_unsent_ = std::max<int64_t>(0, lines - base_line_);
  } else {
    ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(options_.folder));
    ACCEL_RETURN_IF_ERROR(context_.files->WriteDurably(base, absl::StrCat(lines)));
    base_line_ = lines;
  }
  stream_ = std::move(stream);
  return absl::OkStatus();
}

absl::Status WandBTracker::Start(std::optional<int64_t> /*resume_step*/) {
  if (options_.mode == Mode::kDisabled) return absl::OkStatus();
  const bool online = options_.mode == Mode::kOnline;
  if (online) ACCEL_RETURN_IF_ERROR(OpenStream());
  const std::filesystem::path folder = RunFolder();
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder / "files"));
  ACCEL_ASSIGN_OR_RETURN(
      WandBLog log, WandBLog::Open(folder / absl::StrCat("run-", options_.run.run_id(), ".wandb"),
                                   options_.run, online ? first_unsent_ : WandBLog::kNoLines));
  log_.emplace(std::move(log));
  return log_->Flush();
}

absl::Status WandBTracker::StoreInitConfiguration(const ConfigMap& values) {
  if (options_.mode == Mode::kDisabled) return absl::OkStatus();
  WandBItems items;
  for (const auto& [name, value] : values) items[{name}] = DumpJson(ConfigJson(value));
  log_->AddConfig(items);
  ACCEL_RETURN_IF_ERROR(log_->Flush());
  return stream_ == nullptr ? absl::OkStatus() : stream_->SetConfig(options_.run, items);
}

void WandBTracker::Take(const LogCall& call) {
  const int64_t last = open_.has_value() ? open_->last_sequence : log_->sequence();
  if (call.sequence <= last) return;
  const int64_t step = call.step.value_or(0);
  if (open_.has_value() && step > open_->step) CloseRow();
  const std::optional<int64_t> newest = open_.has_value() ? open_->step : log_->step();
  const bool joins = open_.has_value() && step == open_->step;
  if (!joins && newest.has_value() && step <= *newest) {
    WarnOnce("step", absl::StrCat("a row of step ", step, " came after step ", *newest,
                                  ": wandb takes rising steps only, such rows are left out"));
    return;
  }
  if (!open_.has_value()) open_ = OpenRow{step, call.time, {}, call.sequence, call.sequence};
  open_->time = call.time;
  open_->last_sequence = call.sequence;
  for (const std::string& key : AddValues(call, &open_->items)) {
    WarnOnce(key, absl::StrCat(key, " is a key of wandb's own and is shown as _", key));
  }
}

void WandBTracker::CloseRow() {
  OpenRow row = *std::exchange(open_, std::nullopt);
  row.items[{"_step"}] = absl::StrCat(row.step);
  row.items[{"_timestamp"}] = JsonNumber(Seconds(row.time), NonFinite::kBareWord);
  row.items[{"_runtime"}] =
      JsonNumber(std::max(0.0, Seconds(row.time) - Seconds(start_time_)), NonFinite::kBareWord);
  size_t bytes = 0;
  for (const auto& [path, text] : row.items) bytes += path.front().size() + text.size() + 8;
  if (bytes > kMaxRowBytes) {
    WarnOnce("bytes", absl::StrCat("the row of step ", row.step, " has ", bytes,
                                   " bytes, wandb takes ", kMaxRowBytes, ": it is left out"));
    return;
  }
  log_->AddRow(row.step, row.items, row.last_sequence);
}

absl::Status WandBTracker::Deliver() {
  ACCEL_RETURN_IF_ERROR(log_->Flush());
  return stream_ == nullptr ? absl::OkStatus() : stream_->SendLines(base_line_, &*log_);
}

absl::Status WandBTracker::Log(const std::vector<LogCall>& calls) {
  if (options_.mode == Mode::kDisabled) return absl::OkStatus();
  for (const LogCall& call : calls) Take(call);
  return Deliver();
}

absl::Status WandBTracker::Finish(RunOutcome outcome) {
  if (options_.mode == Mode::kDisabled) return absl::OkStatus();
  if (open_.has_value()) CloseRow();
  if (!log_->has_exit()) {
    log_->AddExit(ExitCode(outcome), context_.clock->Now() - start_time_);
  }
  ACCEL_RETURN_IF_ERROR(Deliver());
  ACCEL_RETURN_IF_ERROR(log_->Sync());
  if (stream_ == nullptr || complete_sent_) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(stream_->Complete(ExitCode(outcome)));
  complete_sent_ = true;
  return absl::OkStatus();
}

void WandBTracker::WarnOnce(const std::string& what, std::string message) {
  if (warned_.insert(what).second) warnings_.push_back(std::move(message));
}

}  // namespace accel::tracking
