// What a daemon finds when it comes back: supervisors that go on, have ended, or were killed.
#include <csignal>
#include <fstream>
#include <future>

#include "accel/internal/v1/supervisor.pb.h"
#include "gmock/gmock.h"
#include "server/daemon/job_store.h"
#include "server/daemon/process_identity.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace accel::daemon {
namespace {

using accel::v1::Failure;
using accel::v1::Job;

class AdoptionTest : public DaemonTest {
 protected:
  void StopDaemon() { daemon_.reset(); }
  StoredJob Stored(const std::string& id) {
    return *(*JobStore::Open(folders_.state() / "node.db"))->Get(id);
  }
  ProcessIdentity SupervisorOf(const std::string& id) {
    return *ProcessIdentity::Parse(Stored(id).supervisor);
  }
  bool AwaitProcessEnd(const ProcessIdentity& process) {
    return Eventually([&] {
      waitpid(process.pid, nullptr, WNOHANG);
      return !process.Open().valid();
    });
  }
};

TEST_F(AdoptionTest, RunningJobGoesOnAndIsTakenUp) {
  ASSERT_TRUE(client_->Submit("survivor", {.rows = 300, .end = "STAY", .pause_ms = 1}).ok());
  ASSERT_TRUE(client_->AwaitStep("survivor", 10));
  const MetricsStream before = client_->Stream("survivor", 0, false);
  StopDaemon();
  const ProcessIdentity supervisor = SupervisorOf("survivor");
  EXPECT_TRUE(supervisor.Open().valid());
  StartDaemon();
  EXPECT_EQ(client_->Get("survivor").state(), Job::RUNNING);
  ASSERT_TRUE(client_->AwaitStep("survivor", 300));
  EXPECT_TRUE(supervisor.Open().valid());
  ASSERT_TRUE(client_->Cancel("survivor").ok());
  ASSERT_TRUE(client_->AwaitState("survivor", Job::CANCELLED));
  const MetricsStream after = client_->Stream("survivor", before.end.sequence(), true);
  EXPECT_EQ(before.rows.size() + after.rows.size(), 300u);
  EXPECT_EQ(after.rows.front().step(), before.rows.back().step() + 1);
}

TEST_F(AdoptionTest, JobThatEndedMeanwhileIsTakenOver) {
  ASSERT_TRUE(client_->Submit("ended", {.rows = 200, .pause_ms = 1}).ok());
  ASSERT_TRUE(client_->AwaitStep("ended", 1));
  StopDaemon();
  ASSERT_TRUE(AwaitProcessEnd(SupervisorOf("ended")));
  StartDaemon();
  const Job job = client_->Get("ended");
  EXPECT_EQ(job.state(), Job::SUCCEEDED);
  EXPECT_EQ(job.progress().step(), 200);
  EXPECT_EQ(client_->Stream("ended", 0, true).rows.size(), 200u);
}

TEST_F(AdoptionTest, KilledSupervisorFailsTheJob) {
  ASSERT_TRUE(client_->Submit("killed", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("killed", 10));
  StopDaemon();
  const ProcessIdentity supervisor = SupervisorOf("killed");
  kill(supervisor.pid, SIGKILL);
  ASSERT_TRUE(AwaitProcessEnd(supervisor));
  StartDaemon();
  const Job job = client_->Get("killed");
  EXPECT_EQ(job.state(), Job::FAILED);
  EXPECT_EQ(job.failure().cause(), Failure::SUPERVISOR);
  EXPECT_EQ(job.progress().step(), 10);
  EXPECT_TRUE(job.has_end_time());
}

TEST_F(AdoptionTest, KilledSupervisorIsNoticedWhileServing) {
  ASSERT_TRUE(client_->Submit("killed", {.ranks = 1, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("killed", 10));
  auto follower =
      std::async(std::launch::async, [&] { return client_->Stream("killed", 0, true); });
  kill(SupervisorOf("killed").pid, SIGKILL);
  ASSERT_TRUE(client_->AwaitState("killed", Job::FAILED));
  const Failure failure = client_->Get("killed").failure();
  EXPECT_EQ(failure.cause(), Failure::SUPERVISOR);
  EXPECT_EQ(failure.signal(), 9);
  EXPECT_EQ(failure.message(), "supervisor ended without a word: exited on signal 9");
  const MetricsStream stream = follower.get();
  EXPECT_EQ(stream.rows.size(), 10u);
  EXPECT_EQ(stream.end.reason(), accel::v1::StreamEnd::JOB_ENDED);
}

TEST_F(AdoptionTest, QueuedJobsWaitInTheirOrder) {
  options_.max_world_size = options_.max_ranks = 2;
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(client_->Submit("blocker", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("blocker", Job::RUNNING));
  ASSERT_TRUE(client_->Submit("one", {.ranks = 2}).ok());
  ASSERT_TRUE(client_->Submit("two", {.ranks = 2}).ok());
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(client_->Get("one").state(), Job::QUEUED);
  EXPECT_EQ(client_->Get("two").state(), Job::QUEUED);
  ASSERT_TRUE(client_->Cancel("blocker").ok());
  ASSERT_TRUE(client_->AwaitState("one", Job::SUCCEEDED));
  ASSERT_TRUE(client_->AwaitState("two", Job::SUCCEEDED));
}

TEST_F(AdoptionTest, StopThatWasAskedForIsAskedForAgain) {
  ASSERT_TRUE(client_->Submit("stopping", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("stopping", 10));
  StopDaemon();
  {
    // As if the daemon had been killed between writing the request down and sending it.
    auto store = *JobStore::Open(folders_.state() / "node.db");
    StoredJob stored = *store->Get("stopping");
    stored.stop_grace_seconds = 1;
    stored.job.set_state(Job::STOPPING);
    ASSERT_TRUE(store->Update(stored).ok());
  }
  StartDaemon();
  EXPECT_TRUE(client_->AwaitState("stopping", Job::CANCELLED));
}

TEST_F(AdoptionTest, JobThatWasNeverStartedIsStarted) {
  StopDaemon();
  {
    // As if the daemon had been killed between writing the start down and starting anything.
    auto store = *JobStore::Open(folders_.state() / "node.db");
    StoredJob stored;
    stored.job.set_name("jobs/unlucky");
    stored.job.set_uid("uid");
    stored.job.set_state(Job::STARTING);
    *stored.job.mutable_spec() = MakeSpec({.rows = 3});
    ASSERT_TRUE(store->Insert(&stored).ok());
  }
  StartDaemon();
  ASSERT_TRUE(client_->AwaitState("unlucky", Job::SUCCEEDED));
  EXPECT_EQ(client_->Get("unlucky").progress().step(), 3);
}

TEST_F(AdoptionTest, RecycledProcessIdIsNotTakenForTheSupervisor) {
  ASSERT_TRUE(client_->Submit("reused", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("reused", 10));
  StopDaemon();
  const ProcessIdentity supervisor = SupervisorOf("reused");
  kill(supervisor.pid, SIGKILL);
  ASSERT_TRUE(AwaitProcessEnd(supervisor));
  {
    auto store = *JobStore::Open(folders_.state() / "node.db");
    StoredJob stored = *store->Get("reused");
    ProcessIdentity other = supervisor;
    other.pid = getpid();
    stored.supervisor = other.ToString();
    ASSERT_TRUE(store->Update(stored).ok());
  }
  // Were it taken for this process, this process would be killed.
  StartDaemon();
  EXPECT_EQ(client_->Get("reused").state(), Job::FAILED);
}

TEST_F(AdoptionTest, DeletionThatWasInterruptedIsFinished) {
  ASSERT_TRUE(client_->Submit("half", {.rows = 1}).ok());
  ASSERT_TRUE(client_->AwaitState("half", Job::SUCCEEDED));
  StopDaemon();
  const std::filesystem::path state = folders_.state();
  std::filesystem::rename(state / "jobs/half",
                          state / "trash" / ("half." + Stored("half").job.uid()));
  StartDaemon();
  grpc::Status status;
  client_->Get("half", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_empty(state / "trash"); }));
}

TEST_F(AdoptionTest, SupervisorThatCannotBeStartedFailsTheJobOnly) {
  options_.supervisor = folders_.data() / "rows.csv";
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(client_->Submit("unstartable", {}).ok());
  ASSERT_TRUE(client_->AwaitState("unstartable", Job::FAILED));
  EXPECT_THAT(client_->Get("unstartable").failure().message(),
              testing::HasSubstr("supervisor could not be started"));
  accel::v1::Node node;
  grpc::ClientContext context;
  ASSERT_TRUE(client_->node->GetNode(&context, {}, &node).ok());
  EXPECT_EQ(node.ranks_in_use(), 0);
}

TEST_F(AdoptionTest, LaunchTellsWhatTheOperatorAllows) {
  options_.worker_env = {{"OMP_NUM_THREADS", "1"}};
  setenv("LD_PRELOAD_OF_THE_DAEMON", "x", 1);
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(client_->Submit("env", {}).ok());
  ASSERT_TRUE(client_->AwaitState("env", Job::SUCCEEDED));
  unsetenv("LD_PRELOAD_OF_THE_DAEMON");
  accel::internal::v1::JobLaunch launch;
  std::ifstream file(folders_.state() / "jobs/env/launch.pb", std::ios::binary);
  ASSERT_TRUE(launch.ParseFromIstream(&file));
  EXPECT_EQ(launch.worker_environment().at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(launch.worker_environment().count("LD_PRELOAD_OF_THE_DAEMON"), 0u);
  EXPECT_EQ(launch.worker_path(), "/bin/false");
  EXPECT_EQ(launch.data_roots().at("data"), folders_.data());
  EXPECT_EQ(launch.job().name(), "jobs/env");
}

}  // namespace
}  // namespace accel::daemon
