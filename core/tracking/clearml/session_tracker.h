#ifndef ACCEL_CORE_TRACKING_CLEARML_SESSION_TRACKER_H_
#define ACCEL_CORE_TRACKING_CLEARML_SESSION_TRACKER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/tracking/clearml/events.h"
#include "core/tracking/omissions.h"
#include "core/tracking/row_file.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::clearml {

// ClearML's offline session, `<id>.zip`, which Task.import_offline_session of the package makes a
// task from. While the job runs its files lie in the folder `<id>`, each row once; a row of a step
// that is trained again takes the earlier one's place when it is imported. Finish packs them.
class SessionTracker final : public Tracker {
 public:
  // `folder` is where the session lies; `id` is "offline-" and 32 hexadecimal digits.
  SessionTracker(std::string name, std::filesystem::path folder, std::string id,
                 TaskOptions options, const Clock* clock, FileSystem* files)
      : name_(std::move(name)),
        folder_(std::move(folder)),
        id_(std::move(id)),
        options_(std::move(options)),
        clock_(clock),
        files_(files) {}

  absl::string_view name() const override { return name_; }
  bool requires_logging_directory() const override { return true; }
  Rewind rewind() const override { return Rewind::kTakesLast; }
  // The archive, or the folder that becomes one.
  std::string location() const override { return location_.string(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  const std::string name_;
  const std::filesystem::path folder_;
  const std::string id_;
  const TaskOptions options_;
  const Clock* const clock_;
  FileSystem* const files_;
  std::filesystem::path location_;
  // Set by Start.
  std::optional<RowFile> metrics_;
  Omissions omissions_;
};

}  // namespace accel::tracking::clearml

#endif  // ACCEL_CORE_TRACKING_CLEARML_SESSION_TRACKER_H_
