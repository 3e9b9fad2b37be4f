// JobService, CheckpointService, NodeService and ProfileService over gRPC.
#include <set>

#include "gmock/gmock.h"
#include "server/daemon/job_store.h"
#include "server/daemon/proto_bytes.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using JobApiTest = DaemonTest;

TEST_F(JobApiTest, JobRunsToItsEnd) {
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({.rows = 5});
  Job created;
  ASSERT_TRUE(client_->Create(request, &created).ok());
  EXPECT_THAT(created.name(), testing::MatchesRegex("jobs/job-[a-z2-7]{8}"));
  EXPECT_EQ(created.state(), Job::QUEUED);
  EXPECT_FALSE(created.uid().empty());
  EXPECT_TRUE(created.has_resolved_accelerator());
  const std::string id = created.name().substr(5);
  ASSERT_TRUE(client_->AwaitState(id, Job::SUCCEEDED));
  const Job ended = client_->Get(id);
  EXPECT_EQ(ended.progress().step(), 5);
  EXPECT_EQ(ended.attempts_size(), 1);
  EXPECT_TRUE(ended.has_start_time());
  EXPECT_TRUE(ended.has_end_time());
  EXPECT_EQ(ended.uid(), created.uid());
  EXPECT_NE(ended.etag(), created.etag());
}

TEST_F(JobApiTest, FailureKeepsItsCause) {
  ASSERT_TRUE(client_->Submit("bad", {.end = "FAILED"}).ok());
  ASSERT_TRUE(client_->AwaitState("bad", Job::FAILED));
  EXPECT_EQ(client_->Get("bad").failure().cause(), accel::v1::Failure::DATA);
}

TEST_F(JobApiTest, SupervisorThatEndsWithoutAWordIsTheCause) {
  ASSERT_TRUE(client_->Submit("silent", {.end = "EXIT"}).ok());
  ASSERT_TRUE(client_->AwaitState("silent", Job::FAILED));
  const accel::v1::Failure failure = client_->Get("silent").failure();
  EXPECT_EQ(failure.cause(), accel::v1::Failure::SUPERVISOR);
  EXPECT_EQ(failure.message(), "supervisor ended without a word: exited with code 7");
  EXPECT_EQ(failure.exit_code(), 7);
}

TEST_F(JobApiTest, JobIdTwiceIsRefused) {
  ASSERT_TRUE(client_->Submit("twice", {}).ok());
  const grpc::Status again = client_->Submit("twice", {});
  EXPECT_EQ(again.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ErrorInfoOf(again).reason(), "JOB_ALREADY_EXISTS");
  EXPECT_EQ(ErrorInfoOf(again).metadata().at("job"), "twice");
}

TEST_F(JobApiTest, EveryMistakeIsReportedAtOnce) {
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({.ranks = 0});
  request.mutable_spec()->mutable_data()->mutable_train()->set_file("data/none.csv");
  request.mutable_spec()->set_resume_from("jobs/none/checkpoints/1");
  request.set_job_id("Upper");
  request.set_request_id(std::string(70, 'x'));
  Job job;
  const grpc::Status status = client_->Create(request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const std::vector<std::string> fields = ViolatedFields(status);
  for (const char* const field :
       {"num_processes", "data.train.file", "resume_from", "job_id", "request_id"}) {
    EXPECT_THAT(fields, Contains(field));
  }
  EXPECT_EQ(ErrorInfoOf(status).reason(), "INVALID_FIELDS");
}

TEST_F(JobApiTest, ValidateOnlyRecordsNothing) {
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({});
  request.set_job_id("dry");
  request.set_validate_only(true);
  Job job;
  ASSERT_TRUE(client_->Create(request, &job).ok());
  EXPECT_EQ(job.name(), "jobs/dry");
  EXPECT_EQ(job.state(), Job::QUEUED);
  grpc::Status status;
  client_->Get("dry", &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(client_->Submit("dry", {}).ok());
  EXPECT_EQ(client_->Create(request, &job).error_code(), grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(JobApiTest, RepeatedRequestGetsTheFirstAnswerAfterARestartToo) {
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({});
  request.set_request_id("6f9619ff-8b86-d011-b42d-00cf4fc964ff");
  Job first;
  Job second;
  ASSERT_TRUE(client_->Create(request, &first).ok());
  Restart();
  ASSERT_TRUE(client_->Create(request, &second).ok());
  EXPECT_EQ(DeterministicBytes(first), DeterministicBytes(second));
  request.set_job_id("other");
  const grpc::Status status = client_->Create(request, &second);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("request_id"));
}

TEST_F(JobApiTest, ListsByPageAndState) {
  for (const char* const id : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(client_->Submit(id, {.rows = 1}).ok());
  }
  for (const char* const id : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(client_->AwaitState(id, Job::SUCCEEDED));
  }
  accel::v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    grpc::ClientContext context;
    accel::v1::ListJobsResponse response;
    ASSERT_TRUE(client_->jobs->ListJobs(&context, request, &response).ok());
    EXPECT_LE(response.jobs_size(), 2);
    for (const Job& job : response.jobs()) names.push_back(job.name());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("jobs/e", "jobs/d", "jobs/c", "jobs/b", "jobs/a"));

  request.clear_page_token();
  request.set_page_size(1);
  grpc::ClientContext first;
  accel::v1::ListJobsResponse response;
  ASSERT_TRUE(client_->jobs->ListJobs(&first, request, &response).ok());
  request.set_page_token(response.next_page_token());
  request.add_states(Job::SUCCEEDED);
  grpc::ClientContext other_filter;
  const grpc::Status status = client_->jobs->ListJobs(&other_filter, request, &response);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("page_token"));

  request.clear_page_token();
  request.clear_states();
  request.add_states(Job::FAILED);
  grpc::ClientContext none;
  ASSERT_TRUE(client_->jobs->ListJobs(&none, request, &response).ok());
  EXPECT_EQ(response.jobs_size(), 0);
}

TEST_F(JobApiTest, PageOfLargeJobsEndsEarly) {
  options_.max_world_size = options_.max_ranks = 2;
  Restart();
  ASSERT_TRUE(client_->Submit("blocker", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("blocker", Job::RUNNING));
  accel::v1::CreateJobRequest create;
  *create.mutable_spec() = MakeSpec({.ranks = 2});
  for (int i = 0; i < 50; ++i) {
    (*create.mutable_spec()->mutable_labels())["label-" + std::to_string(i)] =
        std::string(250, 'x');
  }
  const int jobs = static_cast<int>((4 << 20) / create.ByteSizeLong()) + 1;
  Job job;
  for (int i = 0; i < jobs; ++i) ASSERT_TRUE(client_->Create(create, &job).ok());
  accel::v1::ListJobsRequest request;
  request.set_page_size(1000);
  std::set<std::string> names;
  int pages = 0;
  do {
    grpc::ClientContext context;
    accel::v1::ListJobsResponse response;
    ASSERT_TRUE(client_->jobs->ListJobs(&context, request, &response).ok());
    for (const Job& listed : response.jobs()) names.insert(listed.name());
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_GT(pages, 1);
  EXPECT_EQ(names.size(), static_cast<size_t>(jobs) + 1);
  // Queued jobs go first, so that none of them starts.
  for (const std::string& name : names) {
    if (name == "jobs/blocker") continue;
    ASSERT_TRUE(client_->Cancel(name.substr(5)).ok());
  }
}

TEST_F(JobApiTest, CancelStopsARunningJob) {
  ASSERT_TRUE(client_->Submit("endless", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("endless", Job::RUNNING));
  Job job;
  ASSERT_TRUE(client_->Cancel("endless", &job).ok());
  EXPECT_EQ(job.state(), Job::STOPPING);
  ASSERT_TRUE(client_->AwaitState("endless", Job::CANCELLED));
  EXPECT_TRUE(client_->Cancel("endless", &job).ok());
  EXPECT_EQ(job.state(), Job::CANCELLED);
}

TEST_F(JobApiTest, CancelledInTheQueueEndsAtOnce) {
  options_.max_world_size = options_.max_ranks = 2;
  Restart();
  ASSERT_TRUE(client_->Submit("blocker", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("blocker", Job::RUNNING));
  ASSERT_TRUE(client_->Submit("waiting", {.ranks = 1}).ok());
  Job job;
  ASSERT_TRUE(client_->Cancel("waiting", &job).ok());
  EXPECT_EQ(job.state(), Job::CANCELLED);
  EXPECT_TRUE(job.has_end_time());
  EXPECT_FALSE(job.has_start_time());
  ASSERT_TRUE(client_->Delete("waiting").ok());
}

TEST_F(JobApiTest, EndedJobCannotBeCancelled) {
  ASSERT_TRUE(client_->Submit("done", {.rows = 1}).ok());
  ASSERT_TRUE(client_->AwaitState("done", Job::SUCCEEDED));
  const grpc::Status status = client_->Cancel("done");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "JOB_ENDED");
  EXPECT_EQ(client_->Get("done").state(), Job::SUCCEEDED);
}

TEST_F(JobApiTest, QueueIsFirstInFirstOutAndBounded) {
  options_.max_world_size = options_.max_ranks = 2;
  options_.max_queued_jobs = 2;
  Restart();
  ASSERT_TRUE(client_->Submit("running", {.ranks = 2, .end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("running", Job::RUNNING));
  ASSERT_TRUE(client_->Submit("first", {.ranks = 2}).ok());
  ASSERT_TRUE(client_->Submit("second", {.ranks = 1}).ok());
  const grpc::Status full = client_->Submit("third", {.ranks = 1});
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ErrorInfoOf(full).reason(), "QUEUE_FULL");
  accel::v1::Node node;
  grpc::ClientContext context;
  ASSERT_TRUE(client_->node->GetNode(&context, {}, &node).ok());
  EXPECT_EQ(node.ranks_in_use(), 2);
  EXPECT_EQ(node.queued_jobs(), 2);
  EXPECT_EQ(node.listen_addresses(0), daemon_->listen_addresses().at(0));
  EXPECT_EQ(node.metrics_address(), daemon_->metrics_address());
  ASSERT_TRUE(client_->Cancel("running").ok());
  ASSERT_TRUE(client_->AwaitState("first", Job::SUCCEEDED));
  ASSERT_TRUE(client_->AwaitState("second", Job::SUCCEEDED));
  const auto start = [&](const char* id) {
    const auto time = client_->Get(id).start_time();
    return std::pair(time.seconds(), time.nanos());
  };
  EXPECT_LT(start("first"), start("second"));
}

TEST_F(JobApiTest, DeleteRemovesRowAndFolder) {
  ASSERT_TRUE(client_->Submit("gone", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitState("gone", Job::RUNNING));
  const grpc::Status early = client_->Delete("gone");
  EXPECT_EQ(early.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ErrorInfoOf(early).reason(), "JOB_NOT_ENDED");
  ASSERT_TRUE(client_->Cancel("gone").ok());
  ASSERT_TRUE(client_->AwaitState("gone", Job::CANCELLED));
  ASSERT_TRUE(client_->Delete("gone").ok());
  EXPECT_FALSE(std::filesystem::exists(folders_.state() / "jobs" / "gone"));
  EXPECT_EQ(ErrorInfoOf(client_->Delete("gone")).reason(), "JOB_NOT_FOUND");
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_empty(folders_.state() / "trash"); }));
  EXPECT_TRUE(client_->Submit("gone", {}).ok());
}

TEST_F(JobApiTest, CheckpointsAreListedAndResumedFrom) {
  ASSERT_TRUE(client_->Submit("source", {.end = "STAY"}).ok());
  ASSERT_TRUE(client_->AwaitStep("source", 10));
  accel::v1::CreateCheckpointRequest create;
  create.set_parent("jobs/source");
  create.set_request_id("once");
  google::protobuf::Empty empty;
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(client_->checkpoints->CreateCheckpoint(&context, create, &empty).ok());
  }
  create.set_request_id("twice");
  grpc::ClientContext second;
  ASSERT_TRUE(client_->checkpoints->CreateCheckpoint(&second, create, &empty).ok());
  accel::v1::ListCheckpointsRequest list;
  list.set_parent("jobs/source");
  accel::v1::ListCheckpointsResponse response;
  ASSERT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    response.Clear();
    return client_->checkpoints->ListCheckpoints(&context, list, &response).ok() &&
           response.checkpoints_size() == 2;
  }));
  EXPECT_EQ(response.checkpoints(0).name(), "jobs/source/checkpoints/2");
  list.set_page_size(1);
  grpc::ClientContext first_page;
  ASSERT_TRUE(client_->checkpoints->ListCheckpoints(&first_page, list, &response).ok());
  ASSERT_EQ(response.checkpoints_size(), 1);
  list.set_page_token(response.next_page_token());
  grpc::ClientContext second_page;
  ASSERT_TRUE(client_->checkpoints->ListCheckpoints(&second_page, list, &response).ok());
  ASSERT_EQ(response.checkpoints_size(), 1);
  EXPECT_EQ(response.checkpoints(0).name(), "jobs/source/checkpoints/1");
  EXPECT_TRUE(response.next_page_token().empty());

  accel::v1::GetCheckpointRequest get;
  get.set_name("jobs/source/checkpoints/2");
  accel::v1::Checkpoint checkpoint;
  grpc::ClientContext found;
  ASSERT_TRUE(client_->checkpoints->GetCheckpoint(&found, get, &checkpoint).ok());
  EXPECT_EQ(checkpoint.step(), 10);
  get.set_name("jobs/source/checkpoints/9");
  grpc::ClientContext missing;
  const grpc::Status status = client_->checkpoints->GetCheckpoint(&missing, get, &checkpoint);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "CHECKPOINT_NOT_FOUND");

  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({});
  request.mutable_spec()->set_resume_from("jobs/source/checkpoints/1");
  request.set_job_id("resumed");
  Job job;
  ASSERT_TRUE(client_->Create(request, &job).ok());
  ASSERT_TRUE(client_->Cancel("source").ok());
  ASSERT_TRUE(client_->AwaitState("resumed", Job::SUCCEEDED));
  create.clear_request_id();
  grpc::ClientContext ended;
  ASSERT_TRUE(client_->AwaitState("source", Job::CANCELLED));
  EXPECT_EQ(ErrorInfoOf(client_->checkpoints->CreateCheckpoint(&ended, create, &empty)).reason(),
            "JOB_NOT_RUNNING");
}

TEST_F(JobApiTest, UnimplementedMethodsNameThemselves) {
  Job job;
  grpc::ClientContext pause;
  const grpc::Status paused = client_->jobs->PauseJob(&pause, {}, &job);
  EXPECT_EQ(paused.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ErrorInfoOf(paused).metadata().at("feature"), "JobService.PauseJob");
  grpc::ClientContext profile;
  const auto reader = client_->profiles->ProfileJob(&profile, {});
  accel::v1::TraceChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(ErrorInfoOf(reader->Finish()).metadata().at("feature"), "ProfileService.ProfileJob");
}

TEST_F(JobApiTest, ResolvesAcceleratorWithoutRunningAnything) {
  accel::v1::ResolveAcceleratorRequest request;
  request.mutable_accelerator()->mutable_ddp_kwargs()->set_bucket_cap_mb(13);
  accel::v1::ResolveAcceleratorResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(client_->node->ResolveAccelerator(&context, request, &response).ok());
  EXPECT_EQ(response.difference().ddp_kwargs().bucket_cap_mb(), 13);
  EXPECT_TRUE(response.resolved().ddp_kwargs().has_broadcast_buffers());
  EXPECT_FALSE(response.difference().ddp_kwargs().has_broadcast_buffers());
  request.set_device("tpu");
  grpc::ClientContext wrong;
  const grpc::Status status = client_->node->ResolveAccelerator(&wrong, request, &response);
  EXPECT_THAT(ViolatedFields(status), ElementsAre("device"));
}

TEST_F(JobApiTest, ChangesAreInTheAuditTrail) {
  ASSERT_TRUE(client_->Submit("audited", {}).ok());
  ASSERT_TRUE(client_->AwaitState("audited", Job::SUCCEEDED));
  client_->Cancel("audited");
  ASSERT_TRUE(client_->Delete("audited").ok());
  daemon_.reset();
  const auto store = JobStore::Open(folders_.state() / "node.db");
  const auto entries = (*store)->ReadAudit(10);
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ(entries->at(0).method, "JobService.DeleteJob");
  EXPECT_EQ(entries->at(1).outcome, "FAILED_PRECONDITION JOB_ENDED");
  EXPECT_EQ(entries->at(2).method, "JobService.CreateJob");
  EXPECT_EQ(entries->at(2).resource, "jobs/audited");
  EXPECT_EQ(entries->at(2).outcome, "OK");
  EXPECT_THAT(entries->at(2).peer, HasSubstr("127.0.0.1"));
}

TEST_F(JobApiTest, OversizedRequestIsRefused) {
  accel::v1::CreateJobRequest request;
  *request.mutable_spec() = MakeSpec({});
  request.mutable_spec()->set_display_name(std::string(5 << 20, 'x'));
  Job job;
  EXPECT_EQ(client_->Create(request, &job).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(client_->Submit("fine", {}).ok());
}

}  // namespace
}  // namespace accel::daemon
