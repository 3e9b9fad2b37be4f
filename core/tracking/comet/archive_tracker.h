#ifndef ACCEL_CORE_TRACKING_COMET_ARCHIVE_TRACKER_H_
#define ACCEL_CORE_TRACKING_COMET_ARCHIVE_TRACKER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/tracking/comet/messages.h"
#include "core/tracking/omissions.h"
#include "core/tracking/row_file.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::comet {

// Comet's offline archive, `<key>-<6 letters and digits>.zip`, which `comet upload` of the package
// sends. While the job runs its messages lie in `<key>/messages.json`, each row once; Finish packs
// them. Where more points of a metric are in it than the package sends unasked (it takes 15000 by
// chance), that is said with the setting that sends them all.
class ArchiveTracker final : public Tracker {
 public:
  // `folder` is where the archive lies.
  ArchiveTracker(std::string name, std::filesystem::path folder, ExperimentOptions options,
                 const Clock* clock, FileSystem* files)
      : name_(std::move(name)),
        folder_(std::move(folder)),
        options_(std::move(options)),
        clock_(clock),
        files_(files) {}

  absl::string_view name() const override { return name_; }
  bool requires_logging_directory() const override { return true; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  // The archive, or the folder that becomes one.
  std::string location() const override { return location_.string(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  std::string ExperimentJson(RunOutcome outcome) const;
  void SayWhatIsSampled();

  const std::string name_;
  const std::filesystem::path folder_;
  const ExperimentOptions options_;
  const Clock* const clock_;
  FileSystem* const files_;
  std::filesystem::path location_;
  // Set by Start. Its state: start_ms, has_config, points (of each metric).
  std::optional<RowFile> messages_;
  Omissions omissions_;
};

}  // namespace accel::tracking::comet

#endif  // ACCEL_CORE_TRACKING_COMET_ARCHIVE_TRACKER_H_
