#ifndef ACCEL_CORE_TRACKING_CLEARML_ONLINE_TRACKER_H_
#define ACCEL_CORE_TRACKING_CLEARML_ONLINE_TRACKER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "core/tracking/clearml/events.h"
#include "core/tracking/clearml/online_api.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::clearml {

// A task on a ClearML server. The server chooses the task's id, which is kept in `folder` as soon
// as it is known, so that later processes go on with it; one that is killed between the two leaves
// a task without values behind. The server is taken to keep one value of a title, series and
// iteration, the last, so that what is sent again changes nothing.
class OnlineTracker final : public Tracker {
 public:
  OnlineTracker(OnlineApi api, std::string location, std::filesystem::path folder,
                TaskOptions options, FileSystem* files)
      : api_(std::move(api)),
        location_(std::move(location)),
        folder_(std::move(folder)),
        options_(std::move(options)),
        files_(files) {}

  absl::string_view name() const override { return "clearml"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kTakesLast; }
  std::string location() const override;

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  absl::StatusOr<std::string> KeptTask();

  OnlineApi api_;
  const std::string location_;
  const std::filesystem::path folder_;
  const TaskOptions options_;
  FileSystem* const files_;
  std::string task_;
  Omissions omissions_;
};

}  // namespace accel::tracking::clearml

#endif  // ACCEL_CORE_TRACKING_CLEARML_ONLINE_TRACKER_H_
