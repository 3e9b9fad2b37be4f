#ifndef ACCEL_CORE_TRACKING_HTTP_HTTP_CLIENT_H_
#define ACCEL_CORE_TRACKING_HTTP_HTTP_CLIENT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace accel::tracking {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  // `Name: value`.
  std::vector<std::string> headers;
  std::string body;
};

struct HttpResponse {
  int status = 0;
  // By lower-case name; the last one of a name.
  std::map<std::string, std::string> headers;
  std::string body;
};

struct HttpOptions {
  absl::Duration connect_timeout = absl::Seconds(10);
  // Of a whole request.
  absl::Duration timeout = absl::Seconds(30);
  // Certificates of private authorities, PEM, which are trusted beside the system's; empty for
  // none.
  std::string ca_file;
  // A longer answer is an error.
  size_t max_response_bytes = 16 << 20;
};

// The seam for HTTP. Used by one thread. Certificates and host names are always verified, redirects
// never followed (a secret would go with them), and only http and https spoken; proxies come from
// nowhere.
class HttpClient {
 public:
  virtual ~HttpClient() = default;

  // Any answer of the server is OK. UNAVAILABLE when there was none: no connection, closed in the
  // middle, too late; FAILED_PRECONDITION when the server's certificate is not to be trusted;
  // INVALID_ARGUMENT for a bad address. Texts name the host, never headers, query or body.
  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;

  // By libcurl; keeps its connections. Touches nothing before the first request.
  static std::unique_ptr<HttpClient> Make(const HttpOptions& options = {});
};

// `text` as one part of a path or a value in a query.
std::string PercentEncode(absl::string_view text);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_HTTP_CLIENT_H_
