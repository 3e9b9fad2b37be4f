#include "core/tracking/http/curl_errors.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace accel::tracking {

CURL* NewCurl() {
  // libcurl's own first use is not thread-safe.
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  return initialized == CURLE_OK ? curl_easy_init() : nullptr;
}

void SetConnectionRules(CURL* curl, const HttpOptions& options) {
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options.connect_timeout)));
}

std::string UrlPlace(absl::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return "a bad address";
  const size_t start = scheme + 3;
  absl::string_view rest = url.substr(start);
  const absl::string_view authority = rest.substr(0, rest.find('/'));
  const size_t at = authority.rfind('@');
  if (at != absl::string_view::npos) rest.remove_prefix(at + 1);
  return absl::StrCat(url.substr(0, start), rest);
}

absl::Status CurlStatus(CURLcode code, absl::string_view url) {
  const std::string text = absl::StrCat(UrlPlace(url), ": ", curl_easy_strerror(code));
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::FailedPreconditionError(text);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace accel::tracking
