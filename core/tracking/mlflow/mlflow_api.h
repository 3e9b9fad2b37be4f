#ifndef ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_API_H_
#define ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_API_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/json_api.h"

namespace accel::tracking {

// A key and its value, which is always text in MLflow.
using MLflowPairs = std::vector<std::pair<std::string, std::string>>;

// MLflow's REST interface, as far as a run needs it. Errors are those of JsonApi.
class MLflowApi {
 public:
  explicit MLflowApi(JsonApi api) : api_(std::move(api)) {}

  // The experiment of this name, which is made with `tags` when there is none. FAILED_PRECONDITION,
  // permanent, for one that was deleted.
  absl::StatusOr<std::string> ExperimentId(const std::string& name, const MLflowPairs& tags);

  // The newest run of the experiment with this tag; empty when there is none.
  absl::StatusOr<std::string> FindRun(const std::string& experiment_id, const std::string& tag,
                                      const std::string& value);

  absl::StatusOr<std::string> CreateRun(const nlohmann::json& body);
  // `end_time_ms` 0 leaves it out.
  absl::Status UpdateRun(const std::string& run_id, absl::string_view status, int64_t end_time_ms);

  // Entries of one kind ("metrics", "params", "tags"), in batches of at most `limit`. Where the
  // server refuses a batch the entries are tried apart, and `on_refused` is called with each that
  // is wrong by itself.
  absl::Status LogBatch(
      const std::string& run_id, const char* kind, const std::vector<nlohmann::json>& entries,
      size_t limit, absl::FunctionRef<void(const nlohmann::json&, const absl::Status&)> on_refused);

  const std::string& base_url() const { return api_.base_url(); }

 private:
  absl::Status SendRange(
      const std::string& run_id, const char* kind, const nlohmann::json* first, size_t count,
      absl::FunctionRef<void(const nlohmann::json&, const absl::Status&)> on_refused);

  JsonApi api_;
};

// `pairs` as MLflow takes tags and params.
nlohmann::json ToEntries(const MLflowPairs& pairs);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_MLFLOW_MLFLOW_API_H_
