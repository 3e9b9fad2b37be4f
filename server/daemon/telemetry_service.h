#ifndef ACCEL_SERVER_DAEMON_TELEMETRY_SERVICE_H_
#define ACCEL_SERVER_DAEMON_TELEMETRY_SERVICE_H_

#include "accel/v1/telemetry.grpc.pb.h"
#include "server/daemon/stream_hub.h"

namespace accel::daemon {

// accel.v1.TelemetryService: a CursorStream for each call.
class TelemetryService final : public accel::v1::TelemetryService::CallbackService {
 public:
  explicit TelemetryService(StreamHub* hub) : hub_(hub) {}

  grpc::ServerWriteReactor<accel::v1::StreamMetricsResponse>* StreamMetrics(
      grpc::CallbackServerContext* context,
      const accel::v1::StreamMetricsRequest* request) override;
  grpc::ServerWriteReactor<accel::v1::StreamLogsResponse>* StreamLogs(
      grpc::CallbackServerContext* context, const accel::v1::StreamLogsRequest* request) override;
  grpc::ServerWriteReactor<accel::v1::StreamEventsResponse>* StreamEvents(
      grpc::CallbackServerContext* context, const accel::v1::StreamEventsRequest* request) override;

 private:
  StreamHub* const hub_;
};

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_TELEMETRY_SERVICE_H_
