#include "core/tracking/http/json_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/http/json_api.h"

namespace accel::tracking {
namespace {

constexpr int kMaxRefusedInRow = 32;

}  // namespace

absl::Status JsonAnswer::ToStatus(absl::string_view what) const {
  return HttpStatus(what, response);
}

std::string JsonAnswer::Text(absl::string_view name) const { return StringMember(body, name); }

std::string StringMember(const nlohmann::json& object, absl::string_view name) {
  if (!object.is_object()) return "";
  const auto member = object.find(std::string(name));
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

absl::Status RefusedForGood(absl::Status status) {
  return absl::IsInvalidArgument(status) ? Permanent(std::move(status)) : status;
}

absl::StatusOr<JsonAnswer> ExchangeText(HttpClient* client, absl::string_view method,
                                        std::string url, std::vector<std::string> headers,
                                        absl::string_view content_type, std::string body) {
  HttpRequest request;
  request.method = std::string(method);
  request.url = std::move(url);
  request.headers = std::move(headers);
  if (!content_type.empty()) {
    request.headers.push_back(absl::StrCat("Content-Type: ", content_type));
  }
  request.body = std::move(body);
  JsonAnswer answer;
  ACCEL_ASSIGN_OR_RETURN(answer.response, client->Send(request));
  answer.body = nlohmann::json::parse(answer.response.body, nullptr, /*allow_exceptions=*/false);
  if (answer.body.is_discarded()) answer.body = nullptr;
  return answer;
}

absl::StatusOr<JsonAnswer> ExchangeJson(HttpClient* client, absl::string_view method,
                                        std::string url, std::vector<std::string> headers,
                                        const nlohmann::json& body) {
  if (body.is_null()) {
    return ExchangeText(client, method, std::move(url), std::move(headers), "", "");
  }
  return ExchangeText(client, method, std::move(url), std::move(headers),
                      "application/json;charset=utf-8", DumpJson(body));
}

absl::Status SendSplitting(size_t count, absl::FunctionRef<absl::Status(size_t, size_t)> send,
                           absl::FunctionRef<void(size_t, const absl::Status&)> drop,
                           absl::FunctionRef<void(size_t)> sent) {
  int refused_in_row = 0;
  // Ranges that are still to be sent, the next one at the back.
  std::vector<std::pair<size_t, size_t>> ranges;
  if (count > 0) ranges.emplace_back(0, count);
  while (!ranges.empty()) {
    const auto [first, last] = ranges.back();
    ranges.pop_back();
    const absl::Status status = send(first, last);
    if (status.ok()) {
      refused_in_row = 0;
      sent(last);
    } else if (!absl::IsInvalidArgument(status)) {
      return status;
    } else if (last - first > 1) {
      const size_t middle = first + (last - first) / 2;
      ranges.emplace_back(middle, last);
      ranges.emplace_back(first, middle);
    } else {
      if (++refused_in_row >= kMaxRefusedInRow) return Permanent(status);
      drop(first, status);
      sent(last);
    }
  }
  return absl::OkStatus();
}

}  // namespace accel::tracking
