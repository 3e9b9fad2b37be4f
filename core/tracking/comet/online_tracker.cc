#include "core/tracking/comet/online_tracker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/tracking/http/json_exchange.h"
#include "core/tracking/json_values.h"

namespace accel::tracking::comet {
namespace {

// Of one request: the service's limit.
constexpr size_t kMaxValues = 1000;

}  // namespace

absl::Status OnlineTracker::Start(std::optional<int64_t> resume_step) {
  // A key that the node has made can only be there from an earlier try.
  const bool may_exist = options_.mode == ExperimentOptions::Mode::kGetOrCreate ||
                         !options_.key_is_given || resume_step.has_value();
  ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.Open(options_, may_exist, clock_->Now())));
  ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.ReportAlive(true, clock_->Now())));
  next_beat_ = clock_->Monotonic() + api_.beat();
  return absl::OkStatus();
}

absl::Status OnlineTracker::StoreInitConfiguration(const ConfigMap& values) {
  if (!options_.name.empty()) {
    ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.SendOther("Name", RepairUtf8(options_.name))));
  }
  if (!options_.tags.empty()) {
    ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.AddTags(options_.tags)));
  }
  std::vector<std::pair<std::string, nlohmann::json>> parameters;
  for (const auto& [key, value] : values) {
    parameters.emplace_back(RepairUtf8(key), ConfigJson(value));
  }
  for (size_t first = 0; first < parameters.size(); first += kMaxValues) {
    const size_t last = std::min(parameters.size(), first + kMaxValues);
    ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.SendParameters(
        {parameters.begin() + first, parameters.begin() + last}, clock_->Now())));
  }
  return absl::OkStatus();
}

absl::Status OnlineTracker::Log(const std::vector<LogCall>& calls) {
  for (const LogCall& call : calls) {
    if (call.sequence <= pending_sequence_) continue;
    AddMessages(call, &pending_, &omissions_);
    pending_sequence_ = call.sequence;
  }
  ACCEL_RETURN_IF_ERROR(KeepAlive());
  return SendPending();
}

absl::Status OnlineTracker::Finish(RunOutcome outcome) {
  omissions_.SayTotals();
  if (outcome == RunOutcome::kFailed) {
    ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.ReportFailure("the job failed")));
  }
  return RefusedForGood(api_.ReportAlive(false, clock_->Now()));
}

absl::Status OnlineTracker::SendPending() {
  std::vector<Metric>& metrics = pending_.metrics;
  while (!metrics.empty()) {
    size_t accepted = 0;
    const absl::Status status = SendSplitting(
        std::min(metrics.size(), kMaxValues),
        [&](size_t from, size_t to) { return api_.SendMetrics(metrics.data() + from, to - from); },
        [&](size_t at, const absl::Status& refused) {
          omissions_.Note(metrics[at].name,
                          absl::StrCat("was refused, left out: ", refused.message()));
        },
        [&](size_t sent) { accepted = sent; });
    metrics.erase(metrics.begin(), metrics.begin() + static_cast<ptrdiff_t>(accepted));
    ACCEL_RETURN_IF_ERROR(status);
  }
  auto& others = pending_.others;
  while (!others.empty()) {
    const auto& [key, text] = others.front();
    const absl::Status status = api_.SendOther(key, text);
    if (absl::IsInvalidArgument(status)) {
      omissions_.Note(key, absl::StrCat("was refused, left out: ", status.message()));
    } else {
      ACCEL_RETURN_IF_ERROR(status);
    }
    others.erase(others.begin());
  }
  return absl::OkStatus();
}

absl::Status OnlineTracker::KeepAlive() {
  if (clock_->Monotonic() < next_beat_) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(api_.ReportAlive(true, clock_->Now()));
  next_beat_ = clock_->Monotonic() + api_.beat();
  return absl::OkStatus();
}

}  // namespace accel::tracking::comet
