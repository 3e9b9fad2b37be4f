#ifndef ACCEL_CORE_TRACKING_HTTP_JSON_EXCHANGE_H_
#define ACCEL_CORE_TRACKING_HTTP_JSON_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/http_client.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// One question and its answer, for services whose refusals say more than their status does.
struct JsonAnswer {
  HttpResponse response;
  // Null where the answer is no JSON.
  nlohmann::json body;

  // See HttpStatus.
  absl::Status ToStatus(absl::string_view what) const;
  // See StringMember.
  std::string Text(absl::string_view name) const;
};

// Sends `body` with the content type of JSON, or nothing where it is null. Any answer is OK; errors
// are HttpClient's.
absl::StatusOr<JsonAnswer> ExchangeJson(HttpClient* client, absl::string_view method,
                                        std::string url, std::vector<std::string> headers,
                                        const nlohmann::json& body);
// With a body that is text already.
absl::StatusOr<JsonAnswer> ExchangeText(HttpClient* client, absl::string_view method,
                                        std::string url, std::vector<std::string> headers,
                                        absl::string_view content_type, std::string body);

// The text in the member `name` of an object; empty where there is none.
std::string StringMember(const nlohmann::json& object, absl::string_view name);

// INVALID_ARGUMENT made permanent, for what is not a batch of values: what was refused would be
// refused again.
absl::Status RefusedForGood(absl::Status status);

// Sends items [0, count) with `send(first, last)`. Where the service refuses what was sent
// (INVALID_ARGUMENT), halves are sent until those that it refuses stand alone; `drop` gets each of
// these. Every other error ends it, with what was accepted before counted as sent by `sent(last)`.
// A service that refuses 32 items in a row refuses all: the error is permanent then.
absl::Status SendSplitting(size_t count, absl::FunctionRef<absl::Status(size_t, size_t)> send,
                           absl::FunctionRef<void(size_t, const absl::Status&)> drop,
                           absl::FunctionRef<void(size_t)> sent);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_JSON_EXCHANGE_H_
