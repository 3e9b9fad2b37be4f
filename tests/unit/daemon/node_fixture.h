#ifndef ACCEL_TESTS_UNIT_DAEMON_NODE_FIXTURE_H_
#define ACCEL_TESTS_UNIT_DAEMON_NODE_FIXTURE_H_

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "accel/v1/checkpoint.grpc.pb.h"
#include "accel/v1/job.grpc.pb.h"
#include "accel/v1/node.grpc.pb.h"
#include "accel/v1/profile.grpc.pb.h"
#include "accel/v1/telemetry.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/temp_dir.h"

namespace accel::daemon {

// Waits until `condition` holds, looking often; false after a generous time.
inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (absl::Now() < deadline) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return false;
}

// The ErrorInfo of an answer.
inline google::rpc::ErrorInfo ErrorInfoOf(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  google::rpc::ErrorInfo info;
  for (const auto& any : details.details()) any.UnpackTo(&info);
  for (const auto& any : details.details()) {
    if (any.Is<google::rpc::ErrorInfo>()) any.UnpackTo(&info);
  }
  return info;
}

// Field violations of an answer.
inline std::vector<std::string> ViolatedFields(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  std::vector<std::string> fields;
  for (const auto& any : details.details()) {
    google::rpc::BadRequest bad_request;
    if (!any.Is<google::rpc::BadRequest>() || !any.UnpackTo(&bad_request)) continue;
    for (const auto& violation : bad_request.field_violations())
      fields.push_back(violation.field());
  }
  return fields;
}

// What a fake job does; see tests/tools/fake_supervisor.cc.
struct FakeJob {
  int ranks = 1;
  int rows = 10;
  std::string end = "SUCCEEDED";
  int pause_ms = 0;
  int bytes = 0;
};

// A valid job on the data of a NodeClient's folder.
inline accel::v1::JobSpec MakeSpec(const FakeJob& fake) {
  accel::v1::JobSpec spec;
  (*spec.mutable_labels())["fake/rows"] = std::to_string(fake.rows);
  (*spec.mutable_labels())["fake/end"] = fake.end;
  (*spec.mutable_labels())["fake/pause"] = std::to_string(fake.pause_ms);
  (*spec.mutable_labels())["fake/bytes"] = std::to_string(fake.bytes);
  spec.set_num_processes(fake.ranks);
  for (const int size : {2, 4, 2}) spec.mutable_model()->mutable_mlp()->add_layer_sizes(size);
  spec.mutable_data()->mutable_train()->set_file("data/rows.csv");
  spec.mutable_data()->mutable_train()->mutable_csv();
  spec.mutable_data()->set_batch_size(2);
  spec.mutable_loss()->mutable_cross_entropy();
  spec.mutable_optimizer()->mutable_sgd()->set_lr(0.1);
  spec.mutable_loop()->set_num_epochs(1);
  return spec;
}

inline bool HasEnded(accel::v1::Job::State state) {
  using accel::v1::Job;
  return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED;
}

// All rows of a stream, and how it ended.
struct MetricsStream {
  std::vector<accel::v1::MetricRecord> rows;
  int progress = 0;
  accel::v1::StreamEnd end;
  grpc::Status status;

  std::vector<int64_t> Sequences() const {
    std::vector<int64_t> sequences;
    for (const auto& row : rows) sequences.push_back(row.sequence());
    return sequences;
  }
};

// A client of one node.
class NodeClient {
 public:
  explicit NodeClient(const std::string& address) {
    // A channel of its own for each client: connections are not shared.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    jobs = accel::v1::JobService::NewStub(channel_);
    telemetry = accel::v1::TelemetryService::NewStub(channel_);
    checkpoints = accel::v1::CheckpointService::NewStub(channel_);
    node = accel::v1::NodeService::NewStub(channel_);
    profiles = accel::v1::ProfileService::NewStub(channel_);
  }

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  grpc::Status Create(const accel::v1::CreateJobRequest& request, accel::v1::Job* job) {
    grpc::ClientContext context;
    return jobs->CreateJob(&context, request, job);
  }
  grpc::Status Submit(const std::string& id, const FakeJob& fake) {
    accel::v1::CreateJobRequest request;
    *request.mutable_spec() = MakeSpec(fake);
    request.set_job_id(id);
    accel::v1::Job job;
    return Create(request, &job);
  }
  grpc::Status Cancel(const std::string& id, accel::v1::Job* job = nullptr) {
    accel::v1::Job ignored;
    accel::v1::CancelJobRequest request;
    request.set_name("jobs/" + id);
    grpc::ClientContext context;
    return jobs->CancelJob(&context, request, job == nullptr ? &ignored : job);
  }
  grpc::Status Delete(const std::string& id) {
    accel::v1::DeleteJobRequest request;
    request.set_name("jobs/" + id);
    grpc::ClientContext context;
    google::protobuf::Empty response;
    return jobs->DeleteJob(&context, request, &response);
  }
  // An empty job where there is none.
  accel::v1::Job Get(const std::string& id, grpc::Status* status = nullptr) {
    accel::v1::GetJobRequest request;
    request.set_name("jobs/" + id);
    grpc::ClientContext context;
    accel::v1::Job job;
    const grpc::Status got = jobs->GetJob(&context, request, &job);
    if (status != nullptr) *status = got;
    return job;
  }
  bool AwaitState(const std::string& id, accel::v1::Job::State state) {
    return Eventually([&] {
             const accel::v1::Job::State now = Get(id).state();
             return now == state || HasEnded(now);
           }) &&
           Get(id).state() == state;
  }
  bool AwaitStep(const std::string& id, int64_t step) {
    return Eventually([&] { return Get(id).progress().step() >= step; });
  }

  MetricsStream Stream(const std::string& id, int64_t after, bool follow,
                       const std::vector<std::string>& keys = {}) {
    accel::v1::StreamMetricsRequest request;
    request.set_name("jobs/" + id);
    request.mutable_range()->set_after_sequence(after);
    request.mutable_range()->set_follow(follow);
    request.mutable_keys()->Assign(keys.begin(), keys.end());
    grpc::ClientContext context;
    const auto reader = telemetry->StreamMetrics(&context, request);
    MetricsStream stream;
    accel::v1::StreamMetricsResponse response;
    while (reader->Read(&response)) {
      for (const auto& row : response.batch().records()) stream.rows.push_back(row);
      stream.progress += response.has_progress();
      if (response.has_end()) stream.end = response.end();
    }
    stream.status = reader->Finish();
    return stream;
  }

  std::unique_ptr<accel::v1::JobService::Stub> jobs;
  std::unique_ptr<accel::v1::TelemetryService::Stub> telemetry;
  std::unique_ptr<accel::v1::CheckpointService::Stub> checkpoints;
  std::unique_ptr<accel::v1::NodeService::Stub> node;
  std::unique_ptr<accel::v1::ProfileService::Stub> profiles;

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

// The folders of a node: state and data.
class NodeFolders {
 public:
  NodeFolders() {
    std::filesystem::create_directory(data());
    std::ofstream(data() / "rows.csv") << "0.5,1.5,0\n1.5,0.5,1\n";
  }
  std::filesystem::path state() const { return dir_.path() / "state"; }
  std::filesystem::path data() const { return dir_.path() / "data"; }

 private:
  TempDir dir_;
};

// Reaps supervisors that outlived a daemon of this process.
inline void ReapChildren() {
  ASSERT_TRUE(Eventually([] { return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }));
}

}  // namespace accel::daemon

#endif  // ACCEL_TESTS_UNIT_DAEMON_NODE_FIXTURE_H_
