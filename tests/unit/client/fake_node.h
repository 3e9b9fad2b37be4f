#ifndef ACCEL_TESTS_UNIT_CLIENT_FAKE_NODE_H_
#define ACCEL_TESTS_UNIT_CLIENT_FAKE_NODE_H_

#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "accel/v1/checkpoint.grpc.pb.h"
#include "accel/v1/job.grpc.pb.h"
#include "accel/v1/node.grpc.pb.h"
#include "accel/v1/telemetry.grpc.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace accel::fake {

// A folder of its own, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "accel-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The gRPC form of a status with its payloads as google.rpc.Status details.
inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    google::protobuf::Any* any = details.add_details();
    any->set_type_url(std::string(url));
    any->set_value(std::string(payload));
  });
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
          details.SerializeAsString()};
}

// What one call of a stream sends, and its end. `wait_for_cancel` keeps the stream open behind the
// messages until the client or the server gives up.
template <typename Response>
struct StreamScript {
  std::vector<Response> messages = {};
  absl::Status status = absl::OkStatus();
  bool wait_for_cancel = false;
};

// A daemon in this process whose answers a test writes. Requests are kept. A queue of statuses
// fails the calls one after the other before the real answers come; a queue of scripts answers
// streams.
class FakeNode final : public v1::JobService::Service,
                       public v1::CheckpointService::Service,
                       public v1::NodeService::Service {
 public:
  // The telemetry service is an object of its own for its methods' many types.
  class Telemetry final : public v1::TelemetryService::Service {
   public:
    explicit Telemetry(FakeNode* node) : node_(node) {}
    grpc::Status StreamMetrics(grpc::ServerContext* context,
                               const v1::StreamMetricsRequest* request,
                               grpc::ServerWriter<v1::StreamMetricsResponse>* writer) override {
      return node_->Play(context, *request, &node_->metric_requests, &node_->metric_scripts,
                         writer);
    }
    grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest* request,
                            grpc::ServerWriter<v1::StreamLogsResponse>* writer) override {
      return node_->Play(context, *request, &node_->log_requests, &node_->log_scripts, writer);
    }
    grpc::Status StreamEvents(grpc::ServerContext* context, const v1::StreamEventsRequest* request,
                              grpc::ServerWriter<v1::StreamEventsResponse>* writer) override {
      return node_->Play(context, *request, &node_->event_requests, &node_->event_scripts, writer);
    }

   private:
    FakeNode* const node_;
  };

  explicit FakeNode(std::string address) : telemetry_(this), address_(std::move(address)) {
    Start();
  }
  ~FakeNode() override { Stop(); }

  // Also after Stop(), on the same address.
  void Start() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::JobService::Service*>(this));
    builder.RegisterService(static_cast<v1::CheckpointService::Service*>(this));
    builder.RegisterService(static_cast<v1::NodeService::Service*>(this));
    builder.RegisterService(&telemetry_);
    server_ = builder.BuildAndStart();
    if (address_.find(":0") != std::string::npos) address_ = absl::StrCat("127.0.0.1:", port);
  }
  void Stop() {
    if (server_ == nullptr) return;
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
    server_ = nullptr;
  }
  const std::string& address() const { return address_; }
  grpc::HealthCheckServiceInterface* health() { return server_->GetHealthCheckService(); }

  // Blocks until `condition`, checked under the lock after each call, holds.
  void Await(const std::function<bool()>& condition) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&condition));
  }

  absl::Mutex mutex;
  // Statuses of the next unary calls; empty or OK: the answer below.
  std::deque<absl::Status> failures ABSL_GUARDED_BY(mutex);
  int unary_calls ABSL_GUARDED_BY(mutex) = 0;
  v1::Job job;
  std::vector<v1::Job> jobs;
  std::vector<v1::Checkpoint> checkpoints;
  v1::Node node;
  // Runs when a job is asked to stop.
  std::function<void()> on_cancel;

  std::vector<v1::CreateJobRequest> create_requests;
  std::vector<v1::GetJobRequest> get_requests;
  std::vector<v1::ListJobsRequest> list_requests;
  std::vector<v1::CancelJobRequest> cancel_requests;
  std::vector<v1::DeleteJobRequest> delete_requests;
  std::vector<v1::CreateCheckpointRequest> create_checkpoint_requests;
  std::vector<v1::ListCheckpointsRequest> list_checkpoints_requests;
  std::vector<v1::StreamMetricsRequest> metric_requests;
  std::vector<v1::StreamLogsRequest> log_requests;
  std::vector<v1::StreamEventsRequest> event_requests;
  std::deque<StreamScript<v1::StreamMetricsResponse>> metric_scripts;
  std::deque<StreamScript<v1::StreamLogsResponse>> log_scripts;
  std::deque<StreamScript<v1::StreamEventsResponse>> event_scripts;

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                         v1::Job* response) override {
    const absl::Status status = Enter(*request, &create_requests);
    *response = job;
    *response->mutable_spec() = request->spec();
    if (!request->job_id().empty()) response->set_name("jobs/" + request->job_id());
    return ToGrpc(status);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* response) override {
    const absl::Status status = Enter(*request, &get_requests);
    absl::MutexLock lock(&mutex);
    *response = job;
    return ToGrpc(status);
  }
  // Pages of two jobs, the token being the index of the next one.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    const absl::Status status = Enter(*request, &list_requests);
    const size_t first = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    for (size_t i = first; i < jobs.size() && i < first + 2; ++i) *response->add_jobs() = jobs[i];
    if (first + 2 < jobs.size()) response->set_next_page_token(absl::StrCat(first + 2));
    return ToGrpc(status);
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::Job* response) override {
    const absl::Status status = Enter(*request, &cancel_requests);
    if (on_cancel) on_cancel();
    absl::MutexLock lock(&mutex);
    *response = job;
    return ToGrpc(status);
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                         google::protobuf::Empty*) override {
    return ToGrpc(Enter(*request, &delete_requests));
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    const absl::Status status = Enter(*request, &list_checkpoints_requests);
    for (const v1::Checkpoint& checkpoint : checkpoints) {
      *response->add_checkpoints() = checkpoint;
    }
    return ToGrpc(status);
  }
  grpc::Status CreateCheckpoint(grpc::ServerContext*, const v1::CreateCheckpointRequest* request,
                                google::protobuf::Empty*) override {
    return ToGrpc(Enter(*request, &create_checkpoint_requests));
  }
  grpc::Status GetNode(grpc::ServerContext*, const v1::GetNodeRequest* request,
                       v1::Node* response) override {
    std::vector<v1::GetNodeRequest> ignored;
    *response = node;
    return ToGrpc(Enter(*request, &ignored));
  }

 private:
  template <typename Request>
  absl::Status Enter(const Request& request, std::vector<Request>* requests) {
    absl::MutexLock lock(&mutex);
    ++unary_calls;
    requests->push_back(request);
    if (failures.empty()) return absl::OkStatus();
    const absl::Status status = failures.front();
    failures.pop_front();
    return status;
  }

  template <typename Request, typename Response>
  grpc::Status Play(grpc::ServerContext* context, const Request& request,
                    std::vector<Request>* requests, std::deque<StreamScript<Response>>* scripts,
                    grpc::ServerWriter<Response>* writer) {
    StreamScript<Response> script;
    {
      absl::MutexLock lock(&mutex);
      requests->push_back(request);
      if (!scripts->empty()) {
        script = scripts->front();
        scripts->pop_front();
      }
    }
    for (const Response& message : script.messages) writer->Write(message);
    if (script.wait_for_cancel) {
      absl::MutexLock lock(&mutex);
      const std::function<bool()> cancelled = [&] { return context->IsCancelled(); };
      // Nothing signals the mutex when the client goes, so the state is looked at again and again.
      while (!mutex.AwaitWithTimeout(absl::Condition(&cancelled), absl::Milliseconds(5))) {
      }
    }
    return ToGrpc(script.status);
  }

  Telemetry telemetry_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// A message that ends a stream.
template <typename Response>
Response EndMessage(int64_t sequence, v1::StreamEnd::Reason reason = v1::StreamEnd::JOB_ENDED) {
  Response response;
  response.mutable_end()->set_reason(reason);
  response.mutable_end()->set_sequence(sequence);
  return response;
}

// A batch of the given rows.
template <typename Response, typename Record>
Response BatchMessage(const std::vector<Record>& records) {
  Response response;
  for (const Record& record : records) *response.mutable_batch()->add_records() = record;
  return response;
}

}  // namespace accel::fake

#endif  // ACCEL_TESTS_UNIT_CLIENT_FAKE_NODE_H_
