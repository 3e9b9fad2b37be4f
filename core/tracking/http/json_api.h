#ifndef ACCEL_CORE_TRACKING_HTTP_JSON_API_H_
#define ACCEL_CORE_TRACKING_HTTP_JSON_API_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/http_client.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// A service that takes and answers JSON, below one address. Errors are those of HttpClient and of
// HttpStatus; an answer that is no JSON is UNAVAILABLE.
class JsonApi {
 public:
  // `headers` (`Name: value`) go with each request.
  JsonApi(std::unique_ptr<HttpClient> client, std::string base_url,
          std::vector<std::string> headers);

  absl::StatusOr<nlohmann::json> Get(absl::string_view path);
  absl::StatusOr<nlohmann::json> Post(absl::string_view path, const nlohmann::json& body);
  // With a body that is text already.
  absl::StatusOr<nlohmann::json> Send(absl::string_view method, absl::string_view path,
                                      std::string body,
                                      absl::string_view content_type = "application/json");

  void SetHeaders(std::vector<std::string> headers) { headers_ = std::move(headers); }
  const std::string& base_url() const { return base_url_; }

 private:
  std::unique_ptr<HttpClient> client_;
  std::string base_url_;
  std::vector<std::string> headers_;
};

// JSON text without a throw: bytes that are no UTF-8 are replaced.
std::string DumpJson(const nlohmann::json& value);

// `Authorization: Basic ...`.
std::string BasicAuthorization(absl::string_view user, absl::string_view password);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_JSON_API_H_
