#include "server/daemon/job_store.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/daemon/grpc_status.h"
#include "tests/unit/daemon/temp_dir.h"

namespace accel::daemon {
namespace {

using accel::v1::Job;
using testing::ElementsAre;

StoredJob MakeJob(const std::string& id, Job::State state = Job::QUEUED) {
  StoredJob stored;
  stored.job.set_name("jobs/" + id);
  stored.job.set_uid("uid-" + id);
  stored.job.set_state(state);
  return stored;
}

std::vector<std::string> Names(const absl::StatusOr<std::vector<StoredJob>>& jobs) {
  std::vector<std::string> names;
  for (const StoredJob& job : *jobs) names.push_back(JobIdOf(job.job));
  return names;
}

class JobStoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    store_ = *JobStore::Open(dir_.path() / "node.db");
  }

  TempDir dir_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobStoreTest, KeepsJobsOverReopening) {
  StoredJob job = MakeJob("one", Job::RUNNING);
  job.stop_grace_seconds = 0;
  job.supervisor = "1:2:3";
  ASSERT_TRUE(store_->Insert(&job).ok());
  Reopen();
  const auto got = store_->Get("one");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->job.uid(), "uid-one");
  EXPECT_EQ(got->order, job.order);
  EXPECT_EQ(got->stop_grace_seconds, 0);
  EXPECT_EQ(got->supervisor, "1:2:3");
}

TEST_F(JobStoreTest, RefusesAnIdTwice) {
  StoredJob job = MakeJob("one");
  StoredJob same = MakeJob("one");
  same.job.set_uid("other");
  ASSERT_TRUE(store_->Insert(&job).ok());
  const absl::Status status = store_->Insert(&same);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status), "JOB_ALREADY_EXISTS");
}

TEST_F(JobStoreTest, ListsNewestFirstByState) {
  for (const auto& [id, state] :
       {std::pair("a", Job::QUEUED), {"b", Job::FAILED}, {"c", Job::RUNNING}, {"d", Job::FAILED}}) {
    StoredJob job = MakeJob(id, state);
    ASSERT_TRUE(store_->Insert(&job).ok());
  }
  EXPECT_THAT(Names(store_->List(100, {}, 10)), ElementsAre("d", "c", "b", "a"));
  EXPECT_THAT(Names(store_->List(100, {}, 2)), ElementsAre("d", "c"));
  EXPECT_THAT(Names(store_->List(store_->Get("c")->order, {}, 2)), ElementsAre("b", "a"));
  EXPECT_THAT(Names(store_->List(100, {Job::FAILED, Job::QUEUED}, 10)), ElementsAre("d", "b", "a"));
  EXPECT_THAT(Names(store_->ListUnfinished()), ElementsAre("a", "c"));
  EXPECT_EQ(store_->CountByState()->at(Job::FAILED), 2);
}

TEST_F(JobStoreTest, OrderGrowsAfterDeletion) {
  StoredJob first = MakeJob("first");
  ASSERT_TRUE(store_->Insert(&first).ok());
  ASSERT_TRUE(store_->Delete("first").ok());
  StoredJob second = MakeJob("second");
  ASSERT_TRUE(store_->Insert(&second).ok());
  EXPECT_GT(second.order, first.order);
}

TEST_F(JobStoreTest, MissingJobIsNotFound) {
  EXPECT_EQ(ReasonOf(store_->Get("none").status()), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(store_->Update(MakeJob("none"))), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(store_->Delete("none")), "JOB_NOT_FOUND");
}

TEST_F(JobStoreTest, AnswersARequestAgainAndRefusesOtherContents) {
  StoredJob job = MakeJob("one");
  const AnsweredRequest answer{"JobService.CreateJob", "id", "contents", "response"};
  ASSERT_TRUE(store_->Insert(&job, &answer).ok());
  Reopen();
  EXPECT_EQ(*store_->FindAnswer("JobService.CreateJob", "id", "contents"), "response");
  EXPECT_EQ(*store_->FindAnswer("JobService.CancelJob", "id", "contents"), std::nullopt);
  EXPECT_EQ(store_->FindAnswer("JobService.CreateJob", "id", "others").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobStoreTest, FailedChangeKeepsNoAnswer) {
  const AnsweredRequest answer{"method", "id", "contents", "response"};
  ASSERT_FALSE(store_->Delete("none", &answer).ok());
  EXPECT_EQ(*store_->FindAnswer("method", "id", "contents"), std::nullopt);
}

TEST_F(JobStoreTest, PruneForgetsOldAnswersOnly) {
  ASSERT_TRUE(store_->AddAnswer({"method", "id", "contents", ""}).ok());
  ASSERT_TRUE(store_->Prune(absl::Now()).ok());
  EXPECT_NE(*store_->FindAnswer("method", "id", "contents"), std::nullopt);
  ASSERT_TRUE(store_->Prune(absl::Now() + absl::Hours(24 * 8)).ok());
  EXPECT_EQ(*store_->FindAnswer("method", "id", "contents"), std::nullopt);
}

TEST_F(JobStoreTest, KeepsAuditTrail) {
  const absl::Time time = absl::FromUnixMicros(1234567);
  ASSERT_TRUE(store_->AddAudit({time, "unix:", "JobService.CreateJob", "jobs/a", "OK"}).ok());
  ASSERT_TRUE(store_->AddAudit({time, "unix:", "JobService.DeleteJob", "jobs/a", "OK"}).ok());
  Reopen();
  const auto entries = store_->ReadAudit(10);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ(entries->front().method, "JobService.DeleteJob");
  EXPECT_EQ(entries->back().time, time);
  EXPECT_EQ(entries->back().resource, "jobs/a");
}

}  // namespace
}  // namespace accel::daemon
