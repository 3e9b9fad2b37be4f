#ifndef ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_TRACKER_H_
#define ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_TRACKER_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/mlflow/mlflow_api.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// MLflow's tracking server. Numbers are metrics under their key, maps of numbers under
// `<key>/<name>`; texts are no metrics and are left out with a warning. The configuration becomes
// params. A row that is sent again is stored once: its time is the record's. The run carries the
// job's uid as a tag, by which it is found again when an answer was lost.
class MLflowTracker final : public Tracker {
 public:
  struct Options {
    std::string tracking_uri;
    std::string experiment_name;
    // A run to go on with; empty for the job's own.
    std::string run_id;
    MLflowPairs tags;
    std::string parent_run_id;
    std::string run_name;
    std::string description;
    std::string user;
    std::string password;
    std::string token;
    std::string workspace;
  };

  // From the node's settings MLFLOW_EXPERIMENT_NAME, MLFLOW_RUN_ID, MLFLOW_TAGS and
  // MLFLOW_NESTED_RUN, which go before the job's options as in Accelerate; then the job's options;
  // then MLFLOW_TRACKING_URI, MLFLOW_TRACKING_USERNAME and MLFLOW_WORKSPACE.
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::MLflowTracker& spec,
                                                       const TrackerContext& context);

  MLflowTracker(Options options, const TrackerContext& context);

  absl::string_view name() const override { return "mlflow"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::string location() const override;

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings_, {}); }

 private:
  absl::StatusOr<std::string> OwnRun();
  nlohmann::json NewRun() const;
  void AddMetric(const std::string& key, double number, const LogCall& call,
                 std::vector<nlohmann::json>* metrics);
  std::string CheckedKey(const std::string& key);
  void OnRefused(const nlohmann::json& entry, const absl::Status& why);
  void WarnOnce(const std::string& what, std::string message);

  const Options options_;
  const TrackerContext context_;
  MLflowApi api_;
  std::string experiment_id_;
  std::string run_id_;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_TRACKER_H_
