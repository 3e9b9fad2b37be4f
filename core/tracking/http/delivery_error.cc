#include "core/tracking/http/delivery_error.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/utf8.h"

namespace accel::tracking {
namespace {

constexpr char kPermanentUrl[] = "accel/tracking/permanent";
constexpr char kRetryAfterUrl[] = "accel/tracking/retry_after_ms";
constexpr size_t kMaxShownBytes = 300;
// A server that asks for more is asked again after this.
constexpr absl::Duration kLongestWait = absl::Minutes(10);

std::string Shown(absl::string_view body) {
  const std::string text = absl::StrReplaceAll(
      RepairUtf8(absl::StripAsciiWhitespace(body.substr(0, 4 * kMaxShownBytes))),
      {{"\n", " "}, {"\r", " "}, {absl::string_view("\0", 1), " "}});
  return std::string(CutUtf8(text, kMaxShownBytes));
}

}  // namespace

absl::Status Permanent(absl::Status status) {
  status.SetPayload(kPermanentUrl, absl::Cord("1"));
  return status;
}

bool IsPermanent(const absl::Status& status) {
  return status.GetPayload(kPermanentUrl).has_value();
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  const int64_t ms =
      absl::ToInt64Milliseconds(std::clamp(wait, absl::ZeroDuration(), kLongestWait));
  status.SetPayload(kRetryAfterUrl, absl::Cord(absl::StrCat(ms)));
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterUrl);
  int64_t ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return absl::Milliseconds(ms);
}

absl::Status HttpStatus(absl::string_view what, const HttpResponse& response) {
  const int code = response.status;
  if (code >= 200 && code < 300) return absl::OkStatus();
  const std::string body = Shown(response.body);
  const std::string text =
      absl::StrCat(what, " was answered with ", code, body.empty() ? "" : ": ", body);
  if (code == 401) return Permanent(absl::UnauthenticatedError(text));
  if (code == 403) return Permanent(absl::PermissionDeniedError(text));
  if (code < 500 && code != 408 && code != 425 && code != 429) {
    return absl::InvalidArgumentError(text);
  }
  absl::Status status = absl::UnavailableError(text);
  const auto wish = response.headers.find("retry-after");
  double seconds = 0;
  if (wish != response.headers.end() && absl::SimpleAtod(wish->second, &seconds) && seconds >= 0) {
    status = WithRetryAfter(std::move(status), absl::Seconds(seconds));
  }
  return status;
}

}  // namespace accel::tracking
