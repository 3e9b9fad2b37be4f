#ifndef ACCEL_CORE_TRACKING_HTTP_WEB_SOCKET_H_
#define ACCEL_CORE_TRACKING_HTTP_WEB_SOCKET_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/http_client.h"

namespace accel::tracking {

// The client's end of a WebSocket (RFC 6455) for binary messages. Certificates and host names are
// verified, proxies come from nowhere. Errors are HttpClient's; after one the socket is of no use.
// Used by one thread.
class WebSocket {
 public:
  virtual ~WebSocket() = default;

  virtual absl::Status Send(absl::string_view message) = 0;
  // The next message; pings in between are answered. UNAVAILABLE when the server closes.
  virtual absl::StatusOr<std::string> Receive() = 0;

  // `url` starts with http:// or https://. The options' times hold for the handshake and for each
  // message, the size for a message.
  static absl::StatusOr<std::unique_ptr<WebSocket>> Connect(const std::string& url,
                                                            const HttpOptions& options);
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_HTTP_WEB_SOCKET_H_
