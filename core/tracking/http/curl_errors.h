#ifndef ACCEL_CORE_TRACKING_HTTP_CURL_ERRORS_H_
#define ACCEL_CORE_TRACKING_HTTP_CURL_ERRORS_H_

#include <curl/curl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/http_client.h"

namespace accel::tracking {

// A new handle, nullptr when there is none; initializes libcurl at its first use.
CURL* NewCurl();

// What every connection of a tracker keeps to: http and https only, no proxy, the server's
// certificate verified, and the time to connect limited.
void SetConnectionRules(CURL* curl, const HttpOptions& options);

// Where a request goes, without user, query and fragment.
std::string UrlPlace(absl::string_view url);

// A code other than CURLE_OK as HttpClient reports it.
absl::Status CurlStatus(CURLcode code, absl::string_view url);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_CURL_ERRORS_H_
