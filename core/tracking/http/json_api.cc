#include "core/tracking/http/json_api.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking {

using nlohmann::json;

JsonApi::JsonApi(std::unique_ptr<HttpClient> client, std::string base_url,
                 std::vector<std::string> headers)
    : client_(std::move(client)),
      base_url_(absl::StripSuffix(base_url, "/")),
      headers_(std::move(headers)) {}

absl::StatusOr<json> JsonApi::Get(absl::string_view path) { return Send("GET", path, ""); }

absl::StatusOr<json> JsonApi::Post(absl::string_view path, const json& body) {
  return Send("POST", path, DumpJson(body));
}

absl::StatusOr<json> JsonApi::Send(absl::string_view method, absl::string_view path,
                                   std::string body, absl::string_view content_type) {
  HttpRequest request;
  request.method = std::string(method);
  request.url = absl::StrCat(base_url_, path);
  request.headers = headers_;
  if (method != "GET") request.headers.push_back(absl::StrCat("Content-Type: ", content_type));
  request.body = std::move(body);
  ACCEL_ASSIGN_OR_RETURN(const HttpResponse response, client_->Send(request));
  const std::string what = absl::StrCat(method, " ", path.substr(0, path.find('?')));
  ACCEL_RETURN_IF_ERROR(HttpStatus(what, response));
  if (response.body.empty()) return json();
  json answer = json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) {
    return absl::UnavailableError(
        absl::StrCat(what, " was answered with something else than JSON"));
  }
  return answer;
}

std::string DumpJson(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string BasicAuthorization(absl::string_view user, absl::string_view password) {
  return absl::StrCat("Authorization: Basic ",
                      absl::Base64Escape(absl::StrCat(user, ":", password)));
}

}  // namespace accel::tracking
