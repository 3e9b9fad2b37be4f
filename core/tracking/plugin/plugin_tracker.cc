#include "core/tracking/plugin/plugin_tracker.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/plugin/accel_tracker.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::PluginRow;
using accel::internal::v1::PluginValue;
using accel::internal::v1::PluginValues;
using accel::internal::v1::ToTrackerPlugin;

// As accel_tracker.h promises.
constexpr absl::Duration kCallLimit = absl::Seconds(30);

void SetConfigValue(const ConfigValue& value, PluginValue* out) {
  std::visit(
      [out](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool>) out->set_boolean(v);
        if constexpr (std::is_same_v<T, int64_t>) out->set_integer(v);
        if constexpr (std::is_same_v<T, double>) out->set_number(v);
        if constexpr (std::is_same_v<T, std::string>) out->set_text(RepairUtf8(v));
      },
      value);
}

void AddValues(const LogCall& call, PluginRow* row) {
  for (const auto& [name, value] : call.values) {
    const std::string key = RepairUtf8(name);
    for (const auto& [part, number] : value.map().values()) {
      PluginValue* const out = row->add_values();
      out->set_key(key);
      out->set_part(RepairUtf8(part));
      out->set_number(number);
    }
    if (!value.has_number() && !value.has_text()) continue;
    PluginValue* const out = row->add_values();
    out->set_key(key);
    if (value.has_number()) out->set_number(value.number());
    if (value.has_text()) out->set_text(RepairUtf8(value.text()));
  }
}

int32_t OutcomeOf(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::kSucceeded:
      return ACCEL_SUCCEEDED;
    case RunOutcome::kFailed:
      return ACCEL_FAILED;
    case RunOutcome::kCancelled:
      return ACCEL_CANCELLED;
  }
  return ACCEL_FAILED;
}

}  // namespace

PluginTracker::PluginTracker(const accel::v1::CustomTracker& spec,
                             accel::internal::v1::TrackerPlugin plugin,
                             const TrackerContext& context)
    : plugin_(std::move(plugin)), context_(context) {
  run_.set_project(context_.project);
  run_.set_job(context_.job_id);
  run_.set_uid(context_.job_uid);
  if (plugin_.requires_logging_directory()) {
    run_.set_folder((context_.folder / plugin_.name()).string());
  }
  run_.set_secret(context_.settings.Secret(plugin_.name()));
  *run_.mutable_options() = spec.options();
}

Rewind PluginTracker::rewind() const {
  if (plugin_.rewind() == ACCEL_KEEPS_FIRST) return Rewind::kKeepsFirst;
  return plugin_.rewind() == ACCEL_VOIDS ? Rewind::kVoids : Rewind::kTakesLast;
}

absl::Status PluginTracker::Start(std::optional<int64_t> resume_step) {
  if (resume_step.has_value()) run_.set_resume_step(*resume_step);
  if (!run_.folder().empty()) ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(run_.folder()));
  return EnsureProcess();
}

absl::Status PluginTracker::StoreInitConfiguration(const ConfigMap& values) {
  PluginValues configuration;
  for (const auto& [name, value] : values) {
    PluginValue* const out = configuration.add_values();
    out->set_key(RepairUtf8(name));
    SetConfigValue(value, out);
  }
  ToTrackerPlugin call;
  *call.mutable_store_init_configuration() = configuration;
  ACCEL_RETURN_IF_ERROR(Call(call));
  configuration_ = std::move(configuration);
  return absl::OkStatus();
}

absl::Status PluginTracker::Log(const std::vector<LogCall>& calls) {
  ToTrackerPlugin call;
  for (const LogCall& log : calls) {
    PluginRow* const row = call.mutable_log()->add_rows();
    row->set_sequence(log.sequence);
    row->set_step(log.step.value_or(0));
    row->set_time(static_cast<double>(absl::ToUnixMicros(log.time)) / 1e6);
    row->set_attempt(log.attempt);
    row->set_rank(log.rank.value_or(-1));
    AddValues(log, row);
  }
  ACCEL_RETURN_IF_ERROR(Call(call));
  // A process that is started again from here goes on with the run.
  if (!calls.empty()) run_.set_resume_step(calls.back().step.value_or(0));
  return absl::OkStatus();
}

absl::Status PluginTracker::OnRewind(int64_t step) {
  ToTrackerPlugin call;
  call.set_on_rewind(step);
  return Call(call);
}

absl::Status PluginTracker::Finish(RunOutcome outcome) {
  ToTrackerPlugin call;
  call.set_finish(OutcomeOf(outcome));
  return Call(call);
}

absl::Status PluginTracker::EnsureProcess() {
  if (process_ != nullptr && process_->usable()) return absl::OkStatus();
  ACCEL_ASSIGN_OR_RETURN(process_, PluginProcess::Start(context_.plugin_host, plugin_,
                                                        &ProcessLauncher::Real(), kCallLimit));
  ToTrackerPlugin start;
  *start.mutable_start() = run_;
  absl::Status status = process_->Call(start);
  if (status.ok() && configuration_.has_value()) {
    ToTrackerPlugin call;
    *call.mutable_store_init_configuration() = *configuration_;
    status = process_->Call(call);
  }
  // What has not started is not to be called.
  if (!status.ok()) process_ = nullptr;
  return status;
}

absl::Status PluginTracker::Call(const ToTrackerPlugin& call) {
  ACCEL_RETURN_IF_ERROR(EnsureProcess());
  return process_->Call(call);
}

}  // namespace accel::tracking
