#ifndef ACCEL_CLIENT_CLIENT_H_
#define ACCEL_CLIENT_CLIENT_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/v1/checkpoint.grpc.pb.h"
#include "accel/v1/job.grpc.pb.h"
#include "accel/v1/node.grpc.pb.h"
#include "accel/v1/telemetry.grpc.pb.h"
#include "accel/v1/tracking.grpc.pb.h"
#include "client/record_stream.h"

namespace accel::client {

using MetricStream = RecordStream<v1::MetricRecord>;
using LogStream = RecordStream<v1::LogRecord>;
using EventStream = RecordStream<v1::EventRecord>;

struct ClientOptions {
  // Limit of a unary call with all its retries. Above 0.
  absl::Duration deadline = absl::Seconds(10);
  // How broken streams are taken up again.
  ResumePolicy resume;
  // First part of the user agent that the daemon sees.
  std::string user_agent = "accel-client/" ACCEL_VERSION;
};

// A daemon's API. Errors keep the daemon's details as payloads (client/call_status.h). Every
// request with a `request_id` gets a random one where it has none, so that a retry is never carried
// out twice. Thread-safe.
class Client {
 public:
  // Never blocks: the first call connects. INVALID_ARGUMENT for a wrong address, see OpenChannel.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address);
  static absl::StatusOr<std::unique_ptr<Client>> Connect(absl::string_view address,
                                                         const ClientOptions& options);

  const std::string& address() const { return address_; }

  // OK when the daemon is SERVING, see client/channel.h. One try.
  absl::Status CheckServing(absl::Duration timeout);

  // JobService.
  absl::StatusOr<v1::Job> CreateJob(v1::CreateJobRequest request);
  absl::StatusOr<v1::Job> GetJob(const v1::GetJobRequest& request);
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request);
  absl::StatusOr<v1::Job> CancelJob(v1::CancelJobRequest request);
  absl::Status DeleteJob(v1::DeleteJobRequest request);

  // All pages of ListJobs, newest first; no states means all.
  absl::StatusOr<std::vector<v1::Job>> ListAllJobs(const std::vector<v1::Job::State>& states);

  // CheckpointService.
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request);
  absl::StatusOr<v1::Checkpoint> GetCheckpoint(const v1::GetCheckpointRequest& request);
  absl::Status CreateCheckpoint(v1::CreateCheckpointRequest request);

  // All pages of ListCheckpoints, newest first.
  absl::StatusOr<std::vector<v1::Checkpoint>> ListAllCheckpoints(const std::string& job_name);

  // NodeService.
  absl::StatusOr<v1::Node> GetNode();
  absl::StatusOr<v1::ResolveAcceleratorResponse> ResolveAccelerator(
      const v1::ResolveAcceleratorRequest& request);

  // TrackerService. A sync waits as long as it may take itself.
  absl::StatusOr<std::vector<v1::TrackerStatus>> ListTrackers(const std::string& job_name);
  absl::StatusOr<std::vector<v1::TrackerStatus>> SyncTrackers(v1::SyncTrackersRequest request);

  // TelemetryService. Nothing is sent before the first Next(). A stream may outlive the client.
  std::unique_ptr<MetricStream> StreamMetrics(v1::StreamMetricsRequest request);
  std::unique_ptr<LogStream> StreamLogs(v1::StreamLogsRequest request);
  std::unique_ptr<EventStream> StreamEvents(v1::StreamEventsRequest request);

 private:
  Client(std::string address, std::shared_ptr<grpc::Channel> channel, ClientOptions options);

  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
      const Request& request, absl::Duration extra = absl::ZeroDuration());

  template <typename Request, typename Response, typename Record>
  std::unique_ptr<RecordStream<Record>> Stream(
      std::unique_ptr<grpc::ClientReader<Response>> (v1::TelemetryService::Stub::*method)(
          grpc::ClientContext*, const Request&),
      Request request);

  const std::string address_;
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::JobService::Stub> jobs_;
  const std::unique_ptr<v1::CheckpointService::Stub> checkpoints_;
  const std::unique_ptr<v1::NodeService::Stub> node_;
  const std::unique_ptr<v1::TrackerService::Stub> trackers_;
  const std::shared_ptr<v1::TelemetryService::Stub> telemetry_;
  // Whether the daemon has answered at all.
  const std::shared_ptr<std::atomic<bool>> reached_;
};

}  // namespace accel::client

#endif  // ACCEL_CLIENT_CLIENT_H_
