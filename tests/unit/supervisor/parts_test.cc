// Small parts of the supervisor that need no process.

#include <filesystem>
#include <variant>

#include "core/base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/supervisor/checkpoint_collector.h"
#include "server/supervisor/flat_config.h"
#include "server/supervisor/out_of_memory.h"
#include "server/supervisor/worker_set.h"
#include "tests/unit/supervisor/job_fixture.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::CheckpointReport;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

void Write(const fs::path& path, const std::string& contents) {
  fs::create_directories(path.parent_path());
  ASSERT_TRUE(FileSystem::Real().WriteDurably(path, contents).ok());
}

TEST(OutOfMemoryCounterTest, SeesEachRiseOnce) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "memory.events";
  Write(file, "low 0\noom 7\noom_kill 3\noom_group_kill 0\n");
  OutOfMemoryCounter counter(file);
  EXPECT_FALSE(counter.HasRisen());
  Write(file, "low 0\noom 8\noom_kill 4\n");
  EXPECT_TRUE(counter.HasRisen());
  EXPECT_FALSE(counter.HasRisen());
}

TEST(OutOfMemoryCounterTest, UnreadableCounterNeverRises) {
  EXPECT_FALSE(OutOfMemoryCounter("").HasRisen());
  EXPECT_FALSE(OutOfMemoryCounter("/nonexistent/memory.events").HasRisen());
}

TEST(WorkerEnvironmentTest, ThreadsAreTheGivenOnesOrAShareOfTheCores) {
  google::protobuf::Map<std::string, std::string> environment;
  environment["B"] = "2";
  EXPECT_THAT(WorkerEnvironment(environment, 5, 2), ElementsAre("B=2", "OMP_NUM_THREADS=5"));
  EXPECT_THAT(WorkerEnvironment(environment, 0, 100000), ElementsAre("B=2", "OMP_NUM_THREADS=1"));
  environment["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(WorkerEnvironment(environment, 5, 2), ElementsAre("B=2", "OMP_NUM_THREADS=7"));
}

TEST(CheckpointsTest, NextNumberIsAboveAllThatExist) {
  const TemporaryFolder folder;
  EXPECT_EQ(NextCheckpoint(folder.path() / "missing", 4), 4);
  for (const char* name : {"3", "10", ".12.incomplete", "x"}) {
    fs::create_directory(folder.path() / name);
  }
  EXPECT_EQ(NextCheckpoint(folder.path(), 0), 11);
  EXPECT_EQ(NextCheckpoint(folder.path(), 20), 20);
}

TEST(CheckpointsTest, MalformedManifestIsRefused) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(folder.path()).status()));
  for (const char* text : {"", "[]", "{}", R"({"files": {}})", R"({"files": [{"path": "a"}]})",
                           R"({"files": [{"path": "a", "bytes": "1", "sha256": "b"}]})"}) {
    Write(folder.path() / "manifest.json", text);
    EXPECT_TRUE(absl::IsDataLoss(ReadManifest(folder.path()).status())) << text;
  }
}

CheckpointReport Report(int64_t number, double stall) {
  CheckpointReport report;
  report.set_number(number);
  report.set_step(40);
  report.set_epoch(1);
  report.set_stall_seconds(stall);
  return report;
}

TEST(CheckpointCollectorTest, MergesOnceAllRanksHaveReported) {
  const TemporaryFolder folder;
  Write(folder.path() / "5/manifest.json",
        R"({"files": [{"path": "a", "bytes": 1, "sha256": "00"}]})");
  CheckpointCollector collector(2, "jobs/j", folder.path());
  CheckpointReport first = Report(5, 0.25);
  first.set_bytes(99);
  first.add_removed(3);
  EXPECT_FALSE(collector.Add(1, Report(5, 0.75)).has_value());
  const auto written = collector.Add(0, first);
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(written->checkpoint.name(), "jobs/j/checkpoints/5");
  EXPECT_EQ(written->checkpoint.step(), 40);
  EXPECT_EQ(written->checkpoint.bytes(), 99);
  EXPECT_EQ(written->checkpoint.files(0).path(), "a");
  EXPECT_EQ(written->stall_seconds, 0.75);
  EXPECT_THAT(written->removed, ElementsAre("jobs/j/checkpoints/3"));
  EXPECT_THAT(collector.TakeComplete(), IsEmpty());
}

TEST(CheckpointCollectorTest, WhatRankZeroCompletedCountsAtTheEnd) {
  const TemporaryFolder folder;
  CheckpointCollector collector(2, "jobs/j", folder.path());
  EXPECT_FALSE(collector.Add(0, Report(5, 0.25)).has_value());
  EXPECT_FALSE(collector.Add(1, Report(6, 0.25)).has_value());
  const auto complete = collector.TakeComplete();
  ASSERT_THAT(complete, SizeIs(1));
  EXPECT_EQ(complete[0].checkpoint.name(), "jobs/j/checkpoints/5");
}

TEST(FlatConfigTest, NamesFieldsByPath) {
  accel::v1::Job job;
  accel::v1::JobSpec& spec = *job.mutable_spec();
  spec.set_num_processes(2);
  for (const int size : {784, 10}) spec.mutable_model()->mutable_mlp()->add_layer_sizes(size);
  spec.mutable_data()->set_shuffle(false);
  spec.mutable_optimizer()->mutable_sgd()->set_lr(0.5);
  (*spec.mutable_labels())["team"] = "vision";
  spec.mutable_accelerator()->set_mixed_precision("bf16");
  job.mutable_resolved_accelerator()->set_mixed_precision("no");
  job.mutable_resolved_accelerator()
      ->mutable_init_process_group_kwargs()
      ->mutable_timeout()
      ->set_seconds(90);
  spec.mutable_tracking()->set_project("hidden");
  (*spec.mutable_tracking()->mutable_config())["own"] = "1";
  (*spec.mutable_tracking()->mutable_config())["num_processes"] = "mine";

  const tracking::ConfigMap expected = {{"accelerator.init_process_group_kwargs.timeout", 90.0},
                                        {"accelerator.mixed_precision", std::string("no")},
                                        {"data.shuffle", false},
                                        {"labels.team", std::string("vision")},
                                        {"model.mlp.layer_sizes", std::string("[784,10]")},
                                        {"num_processes", std::string("mine")},
                                        {"optimizer.sgd.lr", 0.5},
                                        {"own", std::string("1")}};
  EXPECT_EQ(FlatConfig(job), expected);
}

}  // namespace
}  // namespace accel::supervisor
