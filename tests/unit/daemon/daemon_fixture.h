#ifndef ACCEL_TESTS_UNIT_DAEMON_DAEMON_FIXTURE_H_
#define ACCEL_TESTS_UNIT_DAEMON_DAEMON_FIXTURE_H_

#include <memory>
#include <string>

#include "server/daemon/daemon.h"
#include "tests/unit/daemon/node_fixture.h"

namespace accel::daemon {

// A daemon in this process with fake supervisors; every job is ended with the test.
class DaemonTest : public testing::Test {
 protected:
  DaemonTest() {
    options_.state_dir = folders_.state();
    options_.listen = {*ParseAddress("127.0.0.1:0")};
    options_.metrics_address = *ParseAddress("127.0.0.1:0");
    options_.data_roots = {{"data", folders_.data()}};
    options_.supervisor = ACCEL_FAKE_SUPERVISOR;
    options_.worker = "/bin/false";
    options_.stream_idle_interval = absl::Milliseconds(40);
    options_.metrics_interval = absl::Milliseconds(20);
  }

  void SetUp() override { StartDaemon(); }
  void TearDown() override {
    if (daemon_ == nullptr) StartDaemon();
    accel::v1::ListJobsRequest request;
    for (const auto state : {accel::v1::Job::QUEUED, accel::v1::Job::STARTING,
                             accel::v1::Job::RUNNING, accel::v1::Job::STOPPING}) {
      request.add_states(state);
    }
    // Newest first: a queued job is cancelled before the one that it waits for.
    accel::v1::ListJobsResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(client_->jobs->ListJobs(&context, request, &response).ok());
    for (const accel::v1::Job& job : response.jobs()) {
      const std::string id = job.name().substr(5);
      client_->Cancel(id);
      ASSERT_TRUE(Eventually([&] { return HasEnded(client_->Get(id).state()); })) << id;
    }
    daemon_.reset();
    ReapChildren();
  }

  void StartDaemon() {
    auto daemon = Daemon::Start(options_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    client_ = std::make_unique<NodeClient>(daemon_->listen_addresses().at(0));
  }
  void Restart() {
    daemon_.reset();
    StartDaemon();
  }

  NodeFolders folders_;
  DaemonOptions options_;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<NodeClient> client_;
};

}  // namespace accel::daemon

#endif  // ACCEL_TESTS_UNIT_DAEMON_DAEMON_FIXTURE_H_
