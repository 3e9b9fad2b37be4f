#ifndef ACCEL_CORE_TRACKING_COMET_ONLINE_API_H_
#define ACCEL_CORE_TRACKING_COMET_ONLINE_API_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/tracking/comet/messages.h"
#include "core/tracking/http/http_client.h"
#include "core/tracking/http/json_exchange.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::comet {

// Comet's HTTP service, as its package 3.58 calls it. Errors are HttpClient's and HttpStatus's,
// save that Comet's own numbers for a refused key, workspace, project or limit are permanent and a
// 429 waits as Retry-After-Custom says, else a minute. Used by one thread.
class OnlineApi {
 public:
  // `base` ends with "/clientlib/" on the public service. An error in the key's place is Open's.
  OnlineApi(std::unique_ptr<HttpClient> client, std::string base,
            absl::StatusOr<std::string> api_key);

  // Makes the experiment, or goes on with the one of this key where it exists and `may_exist`.
  absl::Status Open(const ExperimentOptions& options, bool may_exist, absl::Time now);

  // Where people see the run; empty before Open.
  const std::string& location() const { return location_; }
  // How often the service wants to hear that the run is alive.
  absl::Duration beat() const { return beat_; }

  absl::Status SendMetrics(const Metric* metrics, size_t count);
  // Pairs of name and value.
  absl::Status SendParameters(const std::vector<std::pair<std::string, nlohmann::json>>& parameters,
                              absl::Time now);
  absl::Status SendOther(const std::string& key, const nlohmann::json& value);
  absl::Status AddTags(const std::vector<std::string>& tags);
  // Also learns beat().
  absl::Status ReportAlive(bool is_alive, absl::Time now);
  absl::Status ReportFailure(const std::string& error);

 private:
  absl::StatusOr<JsonAnswer> Ask(const std::string& url, const nlohmann::json& body);
  absl::StatusOr<JsonAnswer> AddRun(const ExperimentOptions& options, absl::Time now);
  absl::StatusOr<JsonAnswer> GetRun(absl::Time now);

  std::unique_ptr<HttpClient> client_;
  const std::string base_;
  const absl::StatusOr<std::string> given_key_;
  std::string api_key_;
  // Beside `base_` on the same host.
  std::string rest_;
  std::string key_;
  std::string run_id_;
  std::string project_id_;
  std::string location_;
  absl::Duration beat_ = absl::Seconds(10);
};

}  // namespace accel::tracking::comet

#endif  // ACCEL_CORE_TRACKING_COMET_ONLINE_API_H_
