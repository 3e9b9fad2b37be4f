#ifndef ACCEL_CORE_TRACKING_SWANLAB_CLOUD_API_H_
#define ACCEL_CORE_TRACKING_SWANLAB_CLOUD_API_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/tracking/http/http_client.h"
#include "core/tracking/http/json_exchange.h"
#include "core/tracking/swanlab/points.h"
#include "core/tracking/swanlab/run_options.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::swanlab {

// SwanLab's HTTP service, as its package 0.10 calls it. A login that has run out is renewed once
// for each call. Errors are HttpClient's and HttpStatus's. Used by one thread.
class CloudApi {
 public:
  // `host` without `/api`. An error in the key's place is Open's.
  CloudApi(std::unique_ptr<HttpClient> client, std::string host,
           absl::StatusOr<std::string> api_key)
      : client_(std::move(client)), host_(std::move(host)), api_key_(std::move(api_key)) {}

  // Logs in, finds or makes the project, makes the experiment or goes on with the one of this id.
  absl::Status Open(const RunOptions& options, absl::Time now);

  // The last step of each key that the experiment had when it was opened.
  const std::map<std::string, int64_t>& held() const { return held_; }
  // Where people see the run; empty before Open.
  std::string location() const;

  absl::Status SetConfig(const std::string& config_text);
  // Keys have to be known before their values come.
  absl::Status AddKeys(const std::vector<std::string>& keys);
  absl::Status SendPoints(const Point* points, size_t count);
  absl::Status Heartbeat();
  // `state` is FINISHED, CRASHED or ABORTED.
  absl::Status SetState(absl::string_view state, absl::Time now);

 private:
  absl::Status Login();
  absl::Status OpenProject(const RunOptions& options);
  absl::Status OpenExperiment(const RunOptions& options, absl::Time now);
  absl::Status ReadHeld(absl::string_view created_at, absl::Time now);
  // Any answer is OK.
  absl::StatusOr<JsonAnswer> Ask(absl::string_view method, const std::string& path,
                                 const nlohmann::json& body);
  absl::Status Tell(absl::string_view method, const std::string& path, const nlohmann::json& body);
  std::string ProjectPath(absl::string_view service) const;

  std::unique_ptr<HttpClient> client_;
  const std::string host_;
  const absl::StatusOr<std::string> api_key_;
  std::string session_;
  std::string user_;
  std::string workspace_;
  std::string project_;
  std::string project_id_;
  std::string project_path_;
  std::string experiment_id_;
  std::string experiment_slug_;
  bool takes_series_ = false;
  std::map<std::string, int64_t> held_;
};

}  // namespace accel::tracking::swanlab

#endif  // ACCEL_CORE_TRACKING_SWANLAB_CLOUD_API_H_
