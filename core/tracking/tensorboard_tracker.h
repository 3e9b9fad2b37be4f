#ifndef ACCEL_CORE_TRACKING_TENSORBOARD_TRACKER_H_
#define ACCEL_CORE_TRACKING_TENSORBOARD_TRACKER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "accel/internal/v1/tensorboard.pb.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/tracking/tensorboard_run.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// Writes what TensorBoard reads, as torch's SummaryWriter lays it out: numbers as scalars, text for
// the text plugin (`<key>/text_summary`), maps of numbers as one sub-run for each name
// (`<key>_<name>`, "/" being replaced by "_") with the tag `<key>`. Hyper-parameters go into the
// run itself and into `hparams.yml` beside it.
//
// Log writes each file once for each call, so that a reader sees whole rows. A row that comes
// again is in no file twice, within the life of this object.
class TensorBoardTracker final : public Tracker {
 public:
  struct Options {
    // The run's folder.
    std::filesystem::path folder;
    // Appended to the name of each event file.
    std::string filename_suffix;
  };

  TensorBoardTracker(Options options, const Clock* clock, FileSystem* files)
      : options_(std::move(options)), clock_(clock), files_(files) {}

  absl::string_view name() const override { return "tensorboard"; }
  bool requires_logging_directory() const override { return true; }

  Rewind rewind() const override { return Rewind::kVoids; }
  std::string location() const override { return options_.folder.string(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status OnRewind(int64_t step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override;

 private:
  // The values of one row by the folder of their run; "" is the run itself.
  using Row = std::map<std::string, accel::internal::v1::tensorboard::Event>;

  Row MakeRow(const LogCall& call);
  void AddScalar(const std::string& folder, const std::string& tag, double number,
                 const LogCall& call, Row* row);
  absl::Status AddRow(int64_t sequence, const Row& row);
  absl::StatusOr<TensorBoardRun*> RunIn(const std::string& folder);
  absl::Status FlushAll();
  void WarnOnce(absl::string_view tag, absl::string_view kind, std::string message);

  const Options options_;
  const Clock* const clock_;
  FileSystem* const files_;
  std::optional<int64_t> resume_step_;
  // By folder below options_.folder.
  std::map<std::string, TensorBoardRun> runs_;
  bool end_written_ = false;
  std::vector<std::string> warnings_;
  absl::flat_hash_set<std::string> warned_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TENSORBOARD_TRACKER_H_
