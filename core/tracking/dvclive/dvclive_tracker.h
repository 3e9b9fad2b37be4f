#ifndef ACCEL_CORE_TRACKING_DVCLIVE_DVCLIVE_TRACKER_H_
#define ACCEL_CORE_TRACKING_DVCLIVE_DVCLIVE_TRACKER_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/tracker.pb.h"
#include "core/base/files.h"
#include "core/tracking/append_file.h"
#include "core/tracking/factory.h"
#include "core/tracking/omissions.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// The files of dvclive.Live in a folder of the job: params.yaml, metrics.json with the last value
// of each metric, plots/metrics/<key>.tsv with its history, and above them the dvc.yaml that tells
// `dvc metrics` and `dvc plots` of them. Numbers that JSON does not have are dvclive's words for
// them; a map becomes a metric `<key>/<name>` for each of its names. No experiment is saved in Git:
// the folder lies in none.
//
// A file of history is what it holds: at a start its torn tail is cut off and its last step read,
// and a value comes into it only above that step, so that each is there once.
class DVCLiveTracker final : public Tracker {
 public:
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::DVCLiveTracker& spec,
                                                       const TrackerContext& context);

  // dvc.yaml lies in `folder`, the rest in its subfolder `name`.
  DVCLiveTracker(std::filesystem::path folder, std::string name, FileSystem* files)
      : folder_(std::move(folder)), name_(std::move(name)), files_(files) {}

  absl::string_view name() const override { return "dvclive"; }
  bool requires_logging_directory() const override { return true; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override { return (folder_ / name_).string(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return omissions_.Take(); }

 private:
  struct History {
    AppendFile file;
    // Greatest step of a row, those that are pending included.
    int64_t last_step = -1;
    // Rows that are not in the file yet.
    std::string pending;
  };

  // Opens or makes it.
  absl::StatusOr<History*> HistoryOf(const std::string& path);
  absl::Status AddValue(const std::string& key, const accel::v1::MetricValue& value,
                        std::optional<int64_t> given_step);

  const std::filesystem::path folder_;
  const std::string name_;
  FileSystem* const files_;
  Omissions omissions_;
  // By the key's path.
  std::map<std::string, History> histories_;
  int64_t highest_step_ = -1;
  nlohmann::json summary_ = nlohmann::json::object();
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_DVCLIVE_DVCLIVE_TRACKER_H_
