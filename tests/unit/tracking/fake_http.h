#ifndef ACCEL_TESTS_UNIT_TRACKING_FAKE_HTTP_H_
#define ACCEL_TESTS_UNIT_TRACKING_FAKE_HTTP_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tracking/factory.h"
#include "core/tracking/http/http_client.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// A server in the process: keeps what was sent, answers what `answer` says.
struct FakeServer {
  std::vector<HttpRequest> requests;
  std::function<absl::StatusOr<HttpResponse>(const HttpRequest&)> answer = [](const HttpRequest&) {
    return Json(200, "{}");
  };

  static HttpResponse Json(int status, std::string body) { return {status, {}, std::move(body)}; }

  // Bodies of the requests to addresses that end so.
  std::vector<nlohmann::json> Bodies(const std::string& end) const {
    std::vector<nlohmann::json> bodies;
    for (const HttpRequest& request : requests) {
      const bool matches =
          request.url.size() >= end.size() &&
          request.url.compare(request.url.size() - end.size(), end.size(), end) == 0;
      if (matches) bodies.push_back(nlohmann::json::parse(request.body));
    }
    return bodies;
  }
};

class FakeClient final : public HttpClient {
 public:
  explicit FakeClient(FakeServer* server) : server_(server) {}
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    server_->requests.push_back(request);
    return server_->answer(request);
  }

 private:
  FakeServer* const server_;
};

// A job whose trackers talk to `server`.
inline TrackerContext ContextOf(FakeServer* server) {
  TrackerContext context;
  context.project = "project";
  context.job_id = "job";
  context.job_uid = "uid-1";
  context.create_time = absl::FromUnixSeconds(1700000000);
  context.host_name = "host";
  context.make_http = [server](const HttpOptions&) { return std::make_unique<FakeClient>(server); };
  return context;
}

// A row with one number.
inline LogCall Row(int64_t sequence, int64_t step, const std::string& key, double number) {
  LogCall call;
  call.sequence = sequence;
  call.step = step;
  call.time = absl::FromUnixSeconds(1700000100) + absl::Seconds(sequence);
  call.values[key].set_number(number);
  return call;
}

}  // namespace accel::tracking

#endif  // ACCEL_TESTS_UNIT_TRACKING_FAKE_HTTP_H_
