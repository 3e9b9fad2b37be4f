#ifndef ACCEL_CORE_TRACKING_SWANLAB_FILE_TRACKER_H_
#define ACCEL_CORE_TRACKING_SWANLAB_FILE_TRACKER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "accel/internal/v1/swanlab.pb.h"
#include "core/base/clock.h"
#include "core/tracking/block_log.h"
#include "core/tracking/omissions.h"
#include "core/tracking/swanlab/points.h"
#include "core/tracking/swanlab/run_options.h"
#include "core/tracking/tracker.h"

namespace accel::tracking::swanlab {

// SwanLab's run folder, `run-<local time>-<id>` with `run-<id>.swanlab` in it, which the package's
// `swanlab sync` uploads. Each Log is one write of whole records, so that a kill leaves a torn tail
// at most; it is cut off when the run goes on. A value comes into the file once: what the file
// holds of each key is read from it at the start. The configuration lies in the file itself.
class FileTracker final : public Tracker {
 public:
  // `folder` is where run folders lie.
  FileTracker(std::string name, std::filesystem::path folder, RunOptions options,
              const Clock* clock)
      : name_(std::move(name)),
        folder_(std::move(folder)),
        options_(std::move(options)),
        clock_(clock) {}

  absl::string_view name() const override { return name_; }
  bool requires_logging_directory() const override { return true; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override { return run_folder_.string(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  void Learn(absl::string_view bytes);
  // Buffers `record` with its number and time.
  void Add(accel::internal::v1::swanlab::Record* record, int64_t number);
  accel::internal::v1::swanlab::Record StartRecord() const;

  const std::string name_;
  const std::filesystem::path folder_;
  const RunOptions options_;
  const Clock* const clock_;
  std::filesystem::path run_folder_;
  // Set by Start.
  std::optional<BlockLog> log_;
  Omissions omissions_;
  Points points_{&omissions_};
  int64_t rows_ = 0;
  bool has_start_ = false;
  bool has_config_ = false;
  bool has_finish_ = false;
};

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_FILE_TRACKER_H_
