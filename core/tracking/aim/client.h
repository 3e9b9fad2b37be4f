#ifndef ACCEL_CORE_TRACKING_AIM_CLIENT_H_
#define ACCEL_CORE_TRACKING_AIM_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/http_client.h"
#include "core/tracking/http/json_exchange.h"
#include "core/tracking/http/web_socket.h"
#include "nlohmann/json.hpp"

namespace accel::tracking::aim {

// A client of an `aim server`, protocol of Aim 3.29: resources on the server under names of our own
// choice, reads by HTTP, writes by one WebSocket. Beside HttpClient's and HttpStatus's errors:
// ABORTED when the server does not know the resource, as after its restart or five minutes without
// a sign of life: Connect and the resources again; NOT_FOUND for a path that is not there;
// UNAVAILABLE for its other exceptions. Used by one thread.
class Client {
 public:
  // `base` is http:// or https:// and what stands before `/tracking`.
  Client(std::unique_ptr<HttpClient> http, std::string base);

  // Makes the server know this client and opens the socket for writes; may be called again.
  absl::Status Connect();
  // As the server wants it every few seconds.
  absl::Status SendHeartbeat();
  absl::Status Disconnect();

  absl::Status GetResource(const std::string& handler, const std::string& type,
                           const nlohmann::json& arguments);
  absl::Status ReleaseResource(const std::string& handler);
  absl::StatusOr<nlohmann::json> Read(const std::string& handler, const std::string& method,
                                      const nlohmann::json& arguments);
  // Instructions are [handler, method, [arguments]]; all of them are done when this returns OK,
  // some may be after an error.
  absl::Status Write(const nlohmann::json& instructions);

 private:
  absl::Status Get(const std::string& path);
  absl::StatusOr<JsonAnswer> Post(const std::string& path, const nlohmann::json& body);

  std::unique_ptr<HttpClient> http_;
  const std::string base_;
  const std::string id_;
  std::unique_ptr<WebSocket> socket_;
};

}  // namespace accel::tracking::aim

#endif  // ACCEL_CORE_TRACKING_AIM_CLIENT_H_
