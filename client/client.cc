#include "client/client.h"

#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "client/call_status.h"
#include "client/channel.h"
#include "client/request_id.h"
#include "client/resuming_stream.h"
#include "core/base/status_macros.h"

namespace accel::client {
namespace {

constexpr int kPageSize = 500;
constexpr double kSyncSeconds = 60;

template <typename Request>
const Request& WithRequestId(Request& request) {
  if (request.request_id().empty()) request.set_request_id(NewRequestId());
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address,
                                                        const ClientOptions& options) {
  ACCEL_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                         OpenChannel(address, options.user_agent));
  return std::unique_ptr<Client>(new Client(std::string(address), std::move(channel), options));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(absl::string_view address) {
  return Connect(address, ClientOptions());
}

Client::Client(std::string address, std::shared_ptr<grpc::Channel> channel, ClientOptions options)
    : address_(std::move(address)),
      options_(std::move(options)),
      channel_(std::move(channel)),
      jobs_(v1::JobService::NewStub(channel_)),
      checkpoints_(v1::CheckpointService::NewStub(channel_)),
      node_(v1::NodeService::NewStub(channel_)),
      trackers_(v1::TrackerService::NewStub(channel_)),
      telemetry_(v1::TelemetryService::NewStub(channel_)),
      reached_(std::make_shared<std::atomic<bool>>(false)) {}

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Client::Call(Stub& stub,
                                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                                      const Request& request, absl::Duration extra) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.deadline + extra));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) reached_->store(true);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

template <typename Request, typename Response, typename Record>
std::unique_ptr<RecordStream<Record>> Client::Stream(
    std::unique_ptr<grpc::ClientReader<Response>> (v1::TelemetryService::Stub::*method)(
        grpc::ClientContext*, const Request&),
    Request request) {
  auto open = [stub = telemetry_, method](grpc::ClientContext* context, const Request& request) {
    return ((*stub).*method)(context, request);
  };
  return std::make_unique<ResumingStream<Request, Response, Record>>(
      std::move(open), std::move(request), options_.resume, reached_);
}

absl::Status Client::CheckServing(absl::Duration timeout) { return CheckHealth(channel_, timeout); }

absl::StatusOr<v1::Job> Client::CreateJob(v1::CreateJobRequest request) {
  return Call(*jobs_, &v1::JobService::Stub::CreateJob, WithRequestId(request));
}

absl::StatusOr<v1::Job> Client::GetJob(const v1::GetJobRequest& request) {
  return Call(*jobs_, &v1::JobService::Stub::GetJob, request);
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(const v1::ListJobsRequest& request) {
  return Call(*jobs_, &v1::JobService::Stub::ListJobs, request);
}

absl::StatusOr<v1::Job> Client::CancelJob(v1::CancelJobRequest request) {
  return Call(*jobs_, &v1::JobService::Stub::CancelJob, WithRequestId(request));
}

absl::Status Client::DeleteJob(v1::DeleteJobRequest request) {
  return Call(*jobs_, &v1::JobService::Stub::DeleteJob, WithRequestId(request)).status();
}

absl::StatusOr<std::vector<v1::Job>> Client::ListAllJobs(
    const std::vector<v1::Job::State>& states) {
  v1::ListJobsRequest request;
  request.set_page_size(kPageSize);
  for (v1::Job::State state : states) request.add_states(state);
  std::vector<v1::Job> jobs;
  do {
    ACCEL_ASSIGN_OR_RETURN(v1::ListJobsResponse page, ListJobs(request));
    for (v1::Job& job : *page.mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

absl::StatusOr<v1::ListCheckpointsResponse> Client::ListCheckpoints(
    const v1::ListCheckpointsRequest& request) {
  return Call(*checkpoints_, &v1::CheckpointService::Stub::ListCheckpoints, request);
}

absl::StatusOr<v1::Checkpoint> Client::GetCheckpoint(const v1::GetCheckpointRequest& request) {
  return Call(*checkpoints_, &v1::CheckpointService::Stub::GetCheckpoint, request);
}

absl::Status Client::CreateCheckpoint(v1::CreateCheckpointRequest request) {
  return Call(*checkpoints_, &v1::CheckpointService::Stub::CreateCheckpoint, WithRequestId(request))
      .status();
}

absl::StatusOr<std::vector<v1::Checkpoint>> Client::ListAllCheckpoints(
    const std::string& job_name) {
  v1::ListCheckpointsRequest request;
  request.set_parent(job_name);
  request.set_page_size(kPageSize);
  std::vector<v1::Checkpoint> checkpoints;
  do {
    ACCEL_ASSIGN_OR_RETURN(v1::ListCheckpointsResponse page, ListCheckpoints(request));
    for (v1::Checkpoint& c : *page.mutable_checkpoints()) checkpoints.push_back(std::move(c));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return checkpoints;
}

absl::StatusOr<v1::Node> Client::GetNode() {
  return Call(*node_, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest());
}

absl::StatusOr<v1::ResolveAcceleratorResponse> Client::ResolveAccelerator(
    const v1::ResolveAcceleratorRequest& request) {
  return Call(*node_, &v1::NodeService::Stub::ResolveAccelerator, request);
}

namespace {

template <typename Response>
std::vector<v1::TrackerStatus> TrackersOf(Response response) {
  return {std::make_move_iterator(response.mutable_trackers()->begin()),
          std::make_move_iterator(response.mutable_trackers()->end())};
}

}  // namespace

absl::StatusOr<std::vector<v1::TrackerStatus>> Client::ListTrackers(const std::string& job_name) {
  v1::ListTrackersRequest request;
  request.set_parent(job_name);
  ACCEL_ASSIGN_OR_RETURN(v1::ListTrackersResponse response,
                         Call(*trackers_, &v1::TrackerService::Stub::ListTrackers, request));
  return TrackersOf(std::move(response));
}

absl::StatusOr<std::vector<v1::TrackerStatus>> Client::SyncTrackers(
    v1::SyncTrackersRequest request) {
  if (!request.has_timeout_seconds()) request.set_timeout_seconds(kSyncSeconds);
  ACCEL_ASSIGN_OR_RETURN(v1::SyncTrackersResponse response,
                         Call(*trackers_, &v1::TrackerService::Stub::SyncTrackers,
                              WithRequestId(request), absl::Seconds(request.timeout_seconds())));
  return TrackersOf(std::move(response));
}

std::unique_ptr<MetricStream> Client::StreamMetrics(v1::StreamMetricsRequest request) {
  return Stream<v1::StreamMetricsRequest, v1::StreamMetricsResponse, v1::MetricRecord>(
      &v1::TelemetryService::Stub::StreamMetrics, std::move(request));
}

std::unique_ptr<LogStream> Client::StreamLogs(v1::StreamLogsRequest request) {
  return Stream<v1::StreamLogsRequest, v1::StreamLogsResponse, v1::LogRecord>(
      &v1::TelemetryService::Stub::StreamLogs, std::move(request));
}

std::unique_ptr<EventStream> Client::StreamEvents(v1::StreamEventsRequest request) {
  return Stream<v1::StreamEventsRequest, v1::StreamEventsResponse, v1::EventRecord>(
      &v1::TelemetryService::Stub::StreamEvents, std::move(request));
}

}  // namespace accel::client
