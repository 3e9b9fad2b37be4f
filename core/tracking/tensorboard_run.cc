#include "core/tracking/tensorboard_run.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"

namespace accel::tracking {

using accel::internal::v1::tensorboard::Event;
using accel::internal::v1::tensorboard::SessionLog;
using accel::internal::v1::tensorboard::Summary;

absl::StatusOr<TensorBoardRun> TensorBoardRun::Open(const std::filesystem::path& folder,
                                                    absl::string_view suffix, absl::Time now,
                                                    std::optional<int64_t> resume_step) {
  ACCEL_ASSIGN_OR_RETURN(EventFile file, EventFile::Create(folder, suffix, now));
  if (resume_step.has_value()) {
    Event start;
    start.set_wall_time(WallSeconds(now));
    start.set_step(*resume_step);
    start.mutable_session_log()->set_status(SessionLog::START);
    file.Add(start);
    ACCEL_RETURN_IF_ERROR(file.Flush());
  }
  return TensorBoardRun(std::move(file));
}

std::vector<TensorBoardRun::StepBack> TensorBoardRun::AddRow(int64_t sequence, const Event& event) {
  std::vector<StepBack> back;
  if (sequence <= written_sequence_) return back;
  for (const Summary::Value& value : event.summary().value()) {
    auto last = buffered_steps_.find(value.tag());
    if (last == buffered_steps_.end()) {
      const auto written = written_steps_.find(value.tag());
      const int64_t step = written == written_steps_.end() ? event.step() : written->second;
      last = buffered_steps_.emplace(value.tag(), step).first;
    }
    if (event.step() < last->second) back.push_back({value.tag(), last->second, event.step()});
    last->second = event.step();
  }
  buffered_sequence_ = std::max(buffered_sequence_, sequence);
  file_.Add(event);
  return back;
}

absl::Status TensorBoardRun::Flush() {
  absl::Status status = file_.Flush();
  if (status.ok()) {
    written_sequence_ = buffered_sequence_;
    for (const auto& [tag, step] : buffered_steps_) written_steps_[tag] = step;
  }
  buffered_sequence_ = written_sequence_;
  buffered_steps_.clear();
  return status;
}

}  // namespace accel::tracking
