#include "core/tracking/http/http_client.h"

#include <curl/curl.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "core/tracking/http/curl_errors.h"

namespace accel::tracking {
namespace {

struct Answer {
  HttpResponse response;
  size_t max_bytes = 0;
};

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto* const answer = static_cast<Answer*>(user);
  if (answer->response.body.size() + size * count > answer->max_bytes) return 0;
  answer->response.body.append(data, size * count);
  return size * count;
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto& headers = static_cast<Answer*>(user)->response.headers;
  const absl::string_view line(data, size * count);
  // Of the last answer only: a 100 may come before it.
  if (absl::StartsWith(line, "HTTP/")) headers.clear();
  const size_t colon = line.find(':');
  if (colon != absl::string_view::npos) {
    headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return size * count;
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(const HttpOptions& options) : options_(options) {}
  ~CurlClient() override { curl_easy_cleanup(curl_); }

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    if (curl_ == nullptr) curl_ = NewCurl();
    if (curl_ == nullptr) return absl::ResourceExhaustedError("libcurl cannot be initialized");
    curl_easy_reset(curl_);
    Answer answer;
    answer.max_bytes = options_.max_response_bytes;
    curl_slist* headers = curl_slist_append(nullptr, "Expect:");
    for (const std::string& header : request.headers) {
      headers = curl_slist_append(headers, header.c_str());
    }
    Configure(request, headers, &answer);
    const CURLcode code = curl_easy_perform(curl_);
    curl_slist_free_all(headers);
    if (code != CURLE_OK) return CurlStatus(code, request.url);
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    answer.response.status = static_cast<int>(status);
    return std::move(answer.response);
  }

 private:
  void Configure(const HttpRequest& request, curl_slist* headers, Answer* answer) {
    curl_easy_setopt(curl_, CURLOPT_URL, request.url.c_str());
    SetConnectionRules(curl_, options_);
    curl_easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS,
                     static_cast<long>(absl::ToInt64Milliseconds(options_.timeout)));
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl_, CURLOPT_USERAGENT, "accel/" ACCEL_VERSION);
    if (request.method != "GET") {
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, request.body.data());
      curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(request.body.size()));
      curl_easy_setopt(curl_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, OnBody);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, OnHeader);
    curl_easy_setopt(curl_, CURLOPT_HEADERDATA, answer);
  }

  const HttpOptions options_;
  CURL* curl_ = nullptr;
};

}  // namespace

std::unique_ptr<HttpClient> HttpClient::Make(const HttpOptions& options) {
  return std::make_unique<CurlClient>(options);
}

std::string PercentEncode(absl::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace accel::tracking
