#ifndef ACCEL_CORE_TRACKING_CLEARML_ONLINE_API_H_
#define ACCEL_CORE_TRACKING_CLEARML_ONLINE_API_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tracking/clearml/events.h"
#include "core/tracking/http/http_client.h"
#include "core/tracking/http/json_exchange.h"
#include "core/tracking/tracker.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::clearml {

// ClearML's API, version 2.23 of it. A login that has run out is renewed once for each call. Errors
// are HttpClient's and HttpStatus's. Used by one thread.
class OnlineApi {
 public:
  // `api_keys` is "access_key:secret_key"; an error in its place is Login's.
  OnlineApi(std::unique_ptr<HttpClient> client, std::string host,
            absl::StatusOr<std::string> api_keys)
      : client_(std::move(client)), host_(std::move(host)), api_keys_(std::move(api_keys)) {}

  absl::Status Login();
  // Finds or makes the project, and in it the task with the options' mark. Returns the task's id.
  absl::StatusOr<std::string> CreateTask(const TaskOptions& options);
  // `again` for one that was started before.
  absl::Status StartTask(const std::string& task, bool again);
  absl::Status SetConfiguration(const std::string& task, const nlohmann::json& configuration);
  // Events [first, last) of an array. Returns what the service says of those that it did not take,
  // empty when it took all.
  absl::StatusOr<std::string> AddEvents(const nlohmann::json& events, size_t first, size_t last);
  absl::Status EndTask(const std::string& task, RunOutcome outcome);

 private:
  absl::StatusOr<std::string> FindProject(const std::string& name);
  // Empty when there is none.
  absl::StatusOr<std::string> FindTask(const std::string& project, const std::string& mark);
  // The member `data` of the answer.
  absl::StatusOr<nlohmann::json> Call(const std::string& action, const nlohmann::json& body);
  absl::StatusOr<nlohmann::json> CallText(const std::string& action, absl::string_view content_type,
                                          const std::string& body);

  std::unique_ptr<HttpClient> client_;
  const std::string host_;
  const absl::StatusOr<std::string> api_keys_;
  std::string token_;
};

}  // namespace accel::tracking::clearml

#endif  // ACCEL_CORE_TRACKING_CLEARML_ONLINE_API_H_
