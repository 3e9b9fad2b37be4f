#ifndef ACCEL_SERVER_DAEMON_SERVICE_ENVIRONMENT_H_
#define ACCEL_SERVER_DAEMON_SERVICE_ENVIRONMENT_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/daemon/grpc_status.h"
#include "server/daemon/job_manager.h"
#include "server/daemon/job_store.h"
#include "server/daemon/work_pool.h"
#include "spdlog/spdlog.h"

namespace accel::daemon {

// Told of calls and streams. Thread-safe; must be quick.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;
  // `method` is `JobService.CreateJob`.
  virtual void OnUnaryCall(absl::string_view method, absl::StatusCode code,
                           absl::Duration elapsed) = 0;
  // `kind` is `metrics`, `logs` or `events`; `change` is 1 or -1.
  virtual void OnSubscriber(absl::string_view kind, int change) = 0;
  virtual void OnRecordsSent(absl::string_view kind, int64_t records) = 0;
};

// What the services share. Everything outlives the server.
struct ServiceEnvironment {
  JobManager* jobs = nullptr;
  JobStore* store = nullptr;
  WorkPool* pool = nullptr;
  RpcObserver* observer = nullptr;
  const Clock* clock = nullptr;
  std::atomic<bool> draining = false;
};

// Handles a unary call on `pool`: `handler` gets no arguments and returns an absl::Status, after
// which the response must be complete. Every error becomes an answer through ToGrpcStatus.
// `audited` is the name of the resource that the call would change; empty for calls that only read.
template <typename Handler>
grpc::ServerUnaryReactor* RunUnaryOn(WorkPool* pool, ServiceEnvironment* environment,
                                     grpc::CallbackServerContext* context, absl::string_view method,
                                     std::function<std::string()> audited, Handler handler) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::Duration start = environment->clock->Monotonic();
  pool->Submit([=, audited = std::move(audited), handler = std::move(handler)] {
    const absl::Status status = environment->draining ? Draining() : handler();
    if (audited != nullptr) {
      const std::string outcome =
          status.ok()
              ? "OK"
              : absl::StrCat(absl::StatusCodeToString(status.code()), " ", ReasonOf(status));
      const absl::Status kept = environment->store->AddAudit(
          {environment->clock->Now(), context->peer(), std::string(method), audited(), outcome});
      if (!kept.ok()) spdlog::error("audit trail: {}", std::string(kept.message()));
    }
    environment->observer->OnUnaryCall(method, status.code(),
                                       environment->clock->Monotonic() - start);
    reactor->Finish(ToGrpcStatus(status));
  });
  return reactor;
}

// The same on the pool that all services share, for what does not wait.
template <typename Handler>
grpc::ServerUnaryReactor* RunUnary(ServiceEnvironment* environment,
                                   grpc::CallbackServerContext* context, absl::string_view method,
                                   std::function<std::string()> audited, Handler handler) {
  return RunUnaryOn(environment->pool, environment, context, method, std::move(audited),
                    std::move(handler));
}

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_SERVICE_ENVIRONMENT_H_
