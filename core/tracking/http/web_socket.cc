#include "core/tracking/http/web_socket.h"

#include <curl/curl.h>
#include <openssl/sha.h>
#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/curl_errors.h"
#include "core/tracking/http/delivery_error.h"

namespace accel::tracking {
namespace {

// RFC 6455's own.
constexpr char kGuid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr int kContinuation = 0;
constexpr int kBinary = 2;
constexpr int kClose = 8;
constexpr int kPing = 9;
constexpr int kPong = 10;
constexpr unsigned char kFinal = 0x80;
constexpr unsigned char kMasked = 0x80;

constexpr size_t kMaxHandshakeBytes = 64 << 10;

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string AcceptOf(absl::string_view key) {
  const std::string text = absl::StrCat(key, kGuid);
  std::string digest(SHA_DIGEST_LENGTH, '\0');
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(digest.data()));
  return absl::Base64Escape(digest);
}

// `http://host:1/a/b` -> {`host:1`, `/a/b`}.
std::pair<std::string, std::string> SplitUrl(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != absl::string_view::npos) url.remove_prefix(scheme + 3);
  const size_t slash = url.find('/');
  if (slash == absl::string_view::npos) return {std::string(url), "/"};
  return {std::string(url.substr(0, slash)), std::string(url.substr(slash))};
}

struct Frame {
  bool is_final = false;
  int kind = 0;
  std::string data;
};

class CurlWebSocket final : public WebSocket {
 public:
  CurlWebSocket(CURL* curl, std::string url, const HttpOptions& options)
      : curl_(curl), url_(std::move(url)), options_(options) {}
  ~CurlWebSocket() override { curl_easy_cleanup(curl_); }

  absl::Status Open() {
    BeginExchange();
    curl_easy_setopt(curl_, CURLOPT_URL, url_.c_str());
    SetConnectionRules(curl_, options_);
    curl_easy_setopt(curl_, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(curl_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    const CURLcode code = curl_easy_perform(curl_);
    if (code != CURLE_OK) return CurlStatus(code, url_);
    return Handshake();
  }

  absl::Status Send(absl::string_view message) override {
    BeginExchange();
    return SendFrame(kBinary, message);
  }

  absl::StatusOr<std::string> Receive() override {
    std::string message;
    while (true) {
      ACCEL_ASSIGN_OR_RETURN(Frame frame, ReadFrame(options_.max_response_bytes - message.size()));
      if (frame.kind == kPing) {
        ACCEL_RETURN_IF_ERROR(SendFrame(kPong, frame.data));
      } else if (frame.kind == kClose) {
        return absl::UnavailableError(absl::StrCat(UrlPlace(url_), ": the server has closed"));
      } else if (frame.kind <= kBinary) {
        message += frame.data;
        if (frame.is_final) return message;
      }
    }
  }

 private:
  void BeginExchange() { deadline_ = absl::Now() + options_.timeout; }

  absl::Status Handshake() {
    const auto [host, path] = SplitUrl(url_);
    const std::string key = absl::Base64Escape(RandomBytes(16));
    ACCEL_RETURN_IF_ERROR(SendAll(absl::StrCat(
        "GET ", path, " HTTP/1.1\r\nHost: ", host,
        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ", key,
        "\r\nSec-WebSocket-Version: 13\r\nUser-Agent: accel/" ACCEL_VERSION "\r\n\r\n")));
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (buffer_.size() > kMaxHandshakeBytes) return Broken("a longer answer than a handshake");
      ACCEL_RETURN_IF_ERROR(ReadMore());
    }
    const std::string head = buffer_.substr(0, end);
    buffer_.erase(0, end + 4);
    return CheckHandshake(head, key);
  }

  absl::Status CheckHandshake(const std::string& head, const std::string& key) {
    const std::vector<std::string> lines = absl::StrSplit(head, "\r\n");
    const std::vector<std::string> first = absl::StrSplit(lines[0], absl::MaxSplits(' ', 2));
    HttpResponse response;
    if (first.size() < 2 || !absl::SimpleAtoi(first[1], &response.status)) {
      return Broken("no answer in HTTP");
    }
    if (response.status != 101) {
      ACCEL_RETURN_IF_ERROR(HttpStatus(UrlPlace(url_), response));
      return Broken("no WebSocket");
    }
    for (const std::string& line : lines) {
      const size_t colon = line.find(':');
      if (colon == std::string::npos ||
          !absl::EqualsIgnoreCase(line.substr(0, colon), "Sec-WebSocket-Accept")) {
        continue;
      }
      if (absl::StripAsciiWhitespace(line.substr(colon + 1)) == AcceptOf(key)) {
        return absl::OkStatus();
      }
    }
    return Broken("another key than was asked for");
  }

  absl::Status SendFrame(int kind, absl::string_view data) {
    std::string frame(1, static_cast<char>(kFinal | kind));
    const auto append_size = [&](int code, int bytes) {
      frame.push_back(static_cast<char>(kMasked | code));
      for (int i = bytes - 1; i >= 0; --i) {
        frame.push_back(static_cast<char>((data.size() >> (8 * i)) & 0xFF));
      }
    };
    if (data.size() < 126) {
      append_size(static_cast<int>(data.size()), 0);
    } else if (data.size() <= 0xFFFF) {
      append_size(126, 2);
    } else {
      append_size(127, 8);
    }
    const std::string mask = RandomBytes(4);
    frame += mask;
    for (size_t i = 0; i < data.size(); ++i) frame.push_back(data[i] ^ mask[i % 4]);
    return SendAll(frame);
  }

  absl::StatusOr<Frame> ReadFrame(size_t max_bytes) {
    ACCEL_RETURN_IF_ERROR(Fill(2));
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(buffer_[i]); };
    Frame frame;
    frame.is_final = (byte(0) & kFinal) != 0;
    frame.kind = byte(0) & 0x0F;
    if ((byte(1) & kMasked) != 0) return Broken("a masked frame");
    uint64_t size = byte(1) & 0x7F;
    const size_t more = size < 126 ? 0 : size == 126 ? 2 : 8;
    if (more > 0) {
      ACCEL_RETURN_IF_ERROR(Fill(2 + more));
      size = 0;
      for (size_t i = 0; i < more; ++i) size = size << 8 | byte(2 + i);
    }
    if (size > max_bytes) return Broken("a longer message than is taken");
    ACCEL_RETURN_IF_ERROR(Fill(2 + more + size));
    frame.data = buffer_.substr(2 + more, size);
    buffer_.erase(0, 2 + more + size);
    return frame;
  }

  absl::Status Fill(size_t bytes) {
    while (buffer_.size() < bytes) ACCEL_RETURN_IF_ERROR(ReadMore());
    return absl::OkStatus();
  }

  absl::Status ReadMore() {
    char data[16 << 10];
    while (true) {
      size_t count = 0;
      const CURLcode code = curl_easy_recv(curl_, data, sizeof(data), &count);
      if (code == CURLE_OK) {
        if (count == 0) return Broken("the server has closed");
        buffer_.append(data, count);
        return absl::OkStatus();
      }
      if (code != CURLE_AGAIN) return CurlStatus(code, url_);
      ACCEL_RETURN_IF_ERROR(Wait(POLLIN));
    }
  }

  absl::Status SendAll(absl::string_view bytes) {
    while (!bytes.empty()) {
      size_t count = 0;
      const CURLcode code = curl_easy_send(curl_, bytes.data(), bytes.size(), &count);
      if (code == CURLE_AGAIN) {
        ACCEL_RETURN_IF_ERROR(Wait(POLLOUT));
      } else if (code != CURLE_OK) {
        return CurlStatus(code, url_);
      }
      bytes.remove_prefix(count);
    }
    return absl::OkStatus();
  }

  absl::Status Wait(short events) {
    curl_socket_t socket = CURL_SOCKET_BAD;
    curl_easy_getinfo(curl_, CURLINFO_ACTIVESOCKET, &socket);
    const int64_t left = absl::ToInt64Milliseconds(deadline_ - absl::Now());
    pollfd entry = {socket, events, 0};
    if (socket == CURL_SOCKET_BAD || left <= 0 ||
        poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1000))) < 0) {
      return Broken("no answer in time");
    }
    return absl::OkStatus();
  }

  absl::Status Broken(absl::string_view why) const {
    return absl::UnavailableError(absl::StrCat(UrlPlace(url_), ": ", why));
  }

  CURL* const curl_;
  const std::string url_;
  const HttpOptions options_;
  absl::Time deadline_;
  // Bytes that came and are not used yet.
  std::string buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WebSocket>> WebSocket::Connect(const std::string& url,
                                                              const HttpOptions& options) {
  CURL* const curl = NewCurl();
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl cannot be initialized");
  auto socket = std::make_unique<CurlWebSocket>(curl, url, options);
  ACCEL_RETURN_IF_ERROR(socket->Open());
  return socket;
}

}  // namespace accel::tracking
