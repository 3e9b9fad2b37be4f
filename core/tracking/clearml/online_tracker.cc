#include "core/tracking/clearml/online_tracker.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/json_exchange.h"

namespace accel::tracking::clearml {
namespace {

using nlohmann::json;

constexpr char kTaskFile[] = "online_task";

}  // namespace

std::string OnlineTracker::location() const {
  return task_.empty() ? "" : absl::StrCat(location_, " task ", task_);
}

absl::Status OnlineTracker::Start(std::optional<int64_t> /*resume_step*/) {
  ACCEL_RETURN_IF_ERROR(RefusedForGood(api_.Login()));
  ACCEL_ASSIGN_OR_RETURN(task_, KeptTask());
  if (!task_.empty()) {
    const absl::Status started = api_.StartTask(task_, /*again=*/true);
    // A server may not start twice what runs; the values tell whether it has the task.
    return absl::IsInvalidArgument(started) ? absl::OkStatus() : started;
  }
  absl::StatusOr<std::string> task = api_.CreateTask(options_);
  ACCEL_RETURN_IF_ERROR(RefusedForGood(task.status()));
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder_));
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(folder_ / kTaskFile, *task));
  task_ = *std::move(task);
  return RefusedForGood(api_.StartTask(task_, /*again=*/false));
}

absl::Status OnlineTracker::StoreInitConfiguration(const ConfigMap& values) {
  return RefusedForGood(api_.SetConfiguration(task_, Configuration(values)));
}

absl::Status OnlineTracker::Log(const std::vector<LogCall>& calls) {
  json events = json::array();
  for (const LogCall& call : calls) AddEvents(call, task_, &events, &omissions_);
  return SendSplitting(
      events.size(),
      [&](size_t first, size_t last) -> absl::Status {
        ACCEL_ASSIGN_OR_RETURN(const std::string refused, api_.AddEvents(events, first, last));
        if (!refused.empty()) omissions_.Note("clearml:", refused);
        return absl::OkStatus();
      },
      [&](size_t at, const absl::Status& refused) {
        omissions_.Note(events[at]["metric"].get<std::string>(),
                        absl::StrCat("was refused, left out: ", refused.message()));
      },
      [](size_t) {});
}

absl::Status OnlineTracker::Finish(RunOutcome outcome) {
  omissions_.SayTotals();
  return RefusedForGood(api_.EndTask(task_, outcome));
}

absl::StatusOr<std::string> OnlineTracker::KeptTask() {
  absl::StatusOr<std::string> task = files_->Read(folder_ / kTaskFile);
  if (absl::IsNotFound(task.status())) return "";
  return task;
}

}  // namespace accel::tracking::clearml
