#include "core/tracking/tracker_feed.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "core/record/tracker_cursors.h"
#include "core/record/writer.h"
#include "core/tracking/http/delivery_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tracking/fake_clock.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What a FakeTracker does and has seen; outlives it.
struct Script {
  absl::Mutex mutex;
  int failures ABSL_GUARDED_BY(mutex) = 0;
  std::string failing ABSL_GUARDED_BY(mutex);
  std::vector<std::string> calls ABSL_GUARDED_BY(mutex);
  std::vector<int64_t> rows ABSL_GUARDED_BY(mutex);
  std::vector<std::string> warnings ABSL_GUARDED_BY(mutex);
  bool main_process_only = true;
  Rewind rewind = Rewind::kTakesLast;
  // What Log holds back of the last call.
  int held_rows = 0;
  absl::Status error = absl::UnavailableError("");
  bool configuration_each_time = false;
  // Log waits for it when set.
  absl::Notification* release = nullptr;
  absl::Notification blocked;
  absl::Notification destroyed;

  void Fail(const std::string& call, int times) {
    absl::MutexLock lock(&mutex);
    failing = call;
    failures = times;
  }
  std::vector<std::string> Calls() {
    absl::MutexLock lock(&mutex);
    return calls;
  }
  std::vector<int64_t> Rows() {
    absl::MutexLock lock(&mutex);
    return rows;
  }
};

class FakeTracker final : public Tracker {
 public:
  explicit FakeTracker(Script* script) : script_(script) {}
  ~FakeTracker() override {
    if (!script_->destroyed.HasBeenNotified()) script_->destroyed.Notify();
  }

  absl::string_view name() const override { return "fake"; }
  bool requires_logging_directory() const override { return false; }
  bool main_process_only() const override { return script_->main_process_only; }
  Rewind rewind() const override { return script_->rewind; }
  bool wants_configuration_at_each_start() const override {
    return script_->configuration_each_time;
  }
  std::optional<int64_t> held_from() const override {
    if (script_->held_rows == 0) return std::nullopt;
    return script_->Rows().back() - script_->held_rows + 1;
  }
  absl::Status OnRewind(int64_t step) override {
    return Note("rewind", absl::StrCat("rewind ", step));
  }

  absl::Status Start(std::optional<int64_t> resume_step) override {
    return Note("start", resume_step.has_value() ? absl::StrCat("start ", *resume_step) : "start");
  }
  absl::Status StoreInitConfiguration(const ConfigMap& values) override {
    return Note("config", absl::StrCat("config ", values.size()));
  }
  absl::Status Log(const std::vector<LogCall>& calls) override {
    if (script_->release != nullptr) {
      script_->blocked.Notify();
      script_->release->WaitForNotification();
    }
    const absl::Status status = Note("log", absl::StrCat("log ", calls.size()));
    if (!status.ok()) return status;
    absl::MutexLock lock(&script_->mutex);
    for (const LogCall& call : calls) script_->rows.push_back(call.sequence);
    return status;
  }
  absl::Status Finish(RunOutcome outcome) override {
    return Note("finish", absl::StrCat("finish ", static_cast<int>(outcome)));
  }
  std::vector<std::string> TakeWarnings() override {
    absl::MutexLock lock(&script_->mutex);
    return std::exchange(script_->warnings, {});
  }

 private:
  absl::Status Note(const std::string& call, const std::string& text) {
    absl::MutexLock lock(&script_->mutex);
    if (script_->failing == call && script_->failures > 0) {
      --script_->failures;
      absl::Status error(script_->error.code(), call + " fails");
      script_->error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
        error.SetPayload(url, payload);
      });
      return error;
    }
    script_->calls.push_back(text);
    return absl::OkStatus();
  }

  Script* const script_;
};

class TrackerFeedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_feed_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    writer_ = *record::Writer::Open(folder_ / "job.db");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Append(int64_t step, std::optional<int32_t> rank = std::nullopt, int32_t attempt = 0) {
    accel::v1::MetricRecord record;
    record.set_step(step);
    record.set_attempt(attempt);
    if (rank.has_value()) record.set_rank(*rank);
    (*record.mutable_values())["loss"].set_number(1);
    ASSERT_TRUE(writer_->Append(record).ok());
  }
  void AppendAndCommit(int64_t step) {
    Append(step);
    ASSERT_TRUE(writer_->Commit().ok());
  }

  std::unique_ptr<TrackerFeed> MakeFeed(Script* script, FeedOptions options = {}) {
    options.record_path = folder_ / "job.db";
    options.init_configuration = {{"lr", 0.1}};
    options.first_backoff = absl::Seconds(100);
    options.max_backoff = absl::Seconds(400);
    return std::make_unique<TrackerFeed>(std::make_unique<FakeTracker>(script), options, &clock_,
                                         [this](const FeedWarning& warning) {
                                           absl::MutexLock lock(&mutex_);
                                           warnings_.push_back(warning);
                                         });
  }

  template <typename Condition>
  void Await(const TrackerFeed& feed, Condition condition) {
    while (!condition(feed.Snapshot())) std::this_thread::yield();
  }
  void AwaitSequence(const TrackerFeed& feed, int64_t sequence) {
    Await(feed, [&](const FeedSnapshot& s) { return s.last_sequence >= sequence; });
  }
  void AwaitFailures(const TrackerFeed& feed, int64_t failures) {
    Await(feed, [&](const FeedSnapshot& s) { return s.total_failures >= failures; });
  }
  void Advance(TrackerFeed* feed, absl::Duration duration) {
    clock_.Advance(duration);
    feed->Notify(0);
  }

  std::vector<FeedWarning> Warnings() {
    absl::MutexLock lock(&mutex_);
    return warnings_;
  }

  FakeClock clock_;
  fs::path folder_;
  std::unique_ptr<record::Writer> writer_;
  absl::Mutex mutex_;
  std::vector<FeedWarning> warnings_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(TrackerFeedTest, FeedsInOrderFromTheRecord) {
  Script script;
  for (int step = 1; step <= 5; ++step) Append(step);
  ASSERT_TRUE(writer_->Append(accel::v1::LogRecord()).ok());
  ASSERT_TRUE(writer_->Commit().ok());
  FeedOptions options;
  options.batch.rows = 2;
  auto feed = MakeFeed(&script, options);
  AwaitSequence(*feed, 6);
  EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "log 2", "log 2", "log 1"));
  EXPECT_THAT(script.Rows(), ElementsAre(1, 2, 3, 4, 5));
  AppendAndCommit(6);
  feed->Notify(7);
  Advance(feed.get(), absl::Seconds(1));
  AwaitSequence(*feed, 7);
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_TRUE(feed->Finish(RunOutcome::kFailed, absl::ZeroDuration()).ok());
  EXPECT_THAT(script.Rows(), ElementsAre(1, 2, 3, 4, 5, 7));
  EXPECT_EQ(script.Calls().back(), "finish 0");
  const FeedSnapshot snapshot = feed->Snapshot();
  EXPECT_EQ(snapshot.name, "fake");
  EXPECT_EQ(snapshot.last_step, 6);
  EXPECT_EQ(snapshot.rows, 6);
  EXPECT_TRUE(snapshot.finished);
  EXPECT_TRUE(snapshot.last_error.ok());
  EXPECT_THAT(Warnings(), IsEmpty());
}

TEST_F(TrackerFeedTest, NewRowsWaitForABatch) {
  Script script;
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  AwaitSequence(*feed, 1);
  for (int step = 2; step <= 4; ++step) {
    AppendAndCommit(step);
    feed->Notify(step);
  }
  Advance(feed.get(), absl::Milliseconds(200));
  AwaitSequence(*feed, 4);
  EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "log 1", "log 3"));
}

TEST_F(TrackerFeedTest, NothingIsStartedWithoutRows) {
  Script script;
  auto feed = MakeFeed(&script);
  feed.reset();
  EXPECT_THAT(script.Calls(), IsEmpty());
}

TEST_F(TrackerFeedTest, FinishWithoutRowsStillMakesARun) {
  Script script;
  auto feed = MakeFeed(&script);
  EXPECT_TRUE(feed->Finish(RunOutcome::kFailed, absl::InfiniteDuration()).ok());
  EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "finish 1"));
}

TEST_F(TrackerFeedTest, KeepsRowsOfAFailingTrackerAndBacksOff) {
  Script script;
  script.Fail("log", 3);
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  AwaitFailures(*feed, 1);
  EXPECT_EQ(feed->Snapshot().last_error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(feed->Snapshot().last_sequence, 0);
  // Each wait is at least half and at most all of 100, 200 and 400 seconds.
  for (int failures = 1; failures <= 3; ++failures) {
    const absl::Duration backoff = absl::Seconds(100) * (1 << (failures - 1));
    Advance(feed.get(), 0.49 * backoff);
    AppendAndCommit(failures + 1);
    feed->Notify(failures + 1);
    EXPECT_EQ(feed->Snapshot().total_failures, failures);
    EXPECT_THAT(script.Rows(), IsEmpty());
    Advance(feed.get(), 0.51 * backoff);
    if (failures < 3) AwaitFailures(*feed, failures + 1);
  }
  AwaitSequence(*feed, 4);
  EXPECT_THAT(script.Rows(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "log 4"));
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_EQ(feed->Snapshot().failures, 0);
  EXPECT_EQ(feed->Snapshot().total_failures, 3);
  // One failure that repeats is told once.
  ASSERT_THAT(Warnings(), SizeIs(1));
  EXPECT_EQ(Warnings()[0].subject, "trackers/fake");
  EXPECT_EQ(Warnings()[0].failures, 1);
  EXPECT_THAT(Warnings()[0].message, HasSubstr("log fails"));
}

TEST_F(TrackerFeedTest, EachStageIsRepeatedByItself) {
  for (const std::string stage : {"start", "config", "finish"}) {
    SCOPED_TRACE(stage);
    Script script;
    script.Fail(stage, 1);
    fs::remove_all(folder_ / "job.db");
    fs::remove_all(folder_ / "job.db-wal");
    fs::remove_all(folder_ / "job.db-shm");
    writer_ = *record::Writer::Open(folder_ / "job.db");
    AppendAndCommit(1);
    auto feed = MakeFeed(&script);
    if (stage != "finish") {
      AwaitFailures(*feed, 1);
      Advance(feed.get(), absl::Seconds(100));
      AwaitSequence(*feed, 1);
    }
    std::thread finish(
        [&] { EXPECT_TRUE(feed->Finish(RunOutcome::kCancelled, absl::InfiniteDuration()).ok()); });
    AwaitFailures(*feed, 1);
    Advance(feed.get(), absl::Seconds(100));
    finish.join();
    EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "log 1", "finish 2"));
  }
}

TEST_F(TrackerFeedTest, GoesOnAfterARestart) {
  Script first;
  AppendAndCommit(10);
  auto feed = MakeFeed(&first);
  AwaitSequence(*feed, 1);
  feed.reset();
  EXPECT_THAT(first.Calls(), ElementsAre("start", "config 1", "log 1"));
  AppendAndCommit(11);
  AppendAndCommit(12);
  Script second;
  feed = MakeFeed(&second);
  AwaitSequence(*feed, 3);
  EXPECT_THAT(second.Calls(), ElementsAre("start 11", "log 2"));
  EXPECT_THAT(second.Rows(), ElementsAre(2, 3));
}

TEST_F(TrackerFeedTest, RowsOfOtherRanksAreKeptFromMainProcessTrackers) {
  Append(1, 1);
  Append(1, 0);
  Append(1);
  Append(2, 3);
  ASSERT_TRUE(writer_->Commit().ok());
  Script main;
  auto feed = MakeFeed(&main);
  AwaitSequence(*feed, 4);
  EXPECT_THAT(main.Rows(), ElementsAre(2, 3));
  feed.reset();
  ASSERT_TRUE((*record::TrackerCursors::Open(folder_ / "job.db"))->Set("fake", 0).ok());
  Script all;
  all.main_process_only = false;
  feed = MakeFeed(&all);
  AwaitSequence(*feed, 4);
  EXPECT_THAT(all.Rows(), ElementsAre(1, 2, 3, 4));
}

TEST_F(TrackerFeedTest, WarningsOfTheTrackerAreTold) {
  Script script;
  {
    absl::MutexLock lock(&script.mutex);
    script.warnings = {"odd"};
  }
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  AwaitSequence(*feed, 1);
  ASSERT_THAT(Warnings(), SizeIs(1));
  EXPECT_EQ(Warnings()[0].message, "odd");
  EXPECT_EQ(Warnings()[0].failures, 0);
}

TEST_F(TrackerFeedTest, BlockedTrackerIsLeftBehindAtTheDeadline) {
  absl::Notification release;
  Script script;
  script.release = &release;
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  script.blocked.WaitForNotification();
  // Nobody else waits for it.
  feed->Notify(1);
  EXPECT_EQ(feed->Snapshot().last_sequence, 0);
  const absl::Status status = feed->Finish(RunOutcome::kSucceeded, absl::ZeroDuration());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rows up to 0"));
  feed.reset();
  release.Notify();
  script.destroyed.WaitForNotification();
  EXPECT_THAT(script.Calls(), ElementsAre("start", "config 1", "log 1"));
  // Its row was not counted as handed over.
  EXPECT_EQ(*(*record::TrackerCursors::Open(folder_ / "job.db"))->Get("fake"), 0);
}

TEST_F(TrackerFeedTest, DeadlineEndsTheTriesOfAFailingTracker) {
  Script script;
  script.Fail("log", 1000000);
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  AwaitFailures(*feed, 1);
  const absl::Status status = feed->Finish(RunOutcome::kSucceeded, absl::ZeroDuration());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("log fails"));
  EXPECT_EQ(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()), status);
  EXPECT_FALSE(feed->Snapshot().finished);
}

TEST_F(TrackerFeedTest, MissingRecordIsAFailureThatPasses) {
  writer_.reset();
  fs::rename(folder_ / "job.db", folder_ / "aside");
  Script script;
  auto feed = MakeFeed(&script);
  AwaitFailures(*feed, 1);
  EXPECT_EQ(feed->Snapshot().last_error.code(), absl::StatusCode::kNotFound);
  fs::rename(folder_ / "aside", folder_ / "job.db");
  writer_ = *record::Writer::Open(folder_ / "job.db");
  AppendAndCommit(1);
  Advance(feed.get(), absl::Seconds(100));
  AwaitSequence(*feed, 1);
  EXPECT_THAT(script.Rows(), ElementsAre(1));
}

accel::v1::TrackerStatus KeptStatus(const fs::path& folder) {
  const auto cursors = *record::TrackerCursors::Open(folder / "job.db");
  return cursors->GetStatus("fake")->value_or(accel::v1::TrackerStatus());
}

TEST_F(TrackerFeedTest, APermanentErrorStopsTheFeedAndALaterOneGoesOn) {
  Script script;
  script.Fail("log", 1);
  script.error = Permanent(absl::UnauthenticatedError(""));
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  Await(*feed, [](const FeedSnapshot& s) { return s.stopped; });
  const absl::Status status = feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration());
  EXPECT_TRUE(absl::IsUnauthenticated(status));
  EXPECT_EQ(feed->Snapshot().total_failures, 1);
  ASSERT_THAT(Warnings(), SizeIs(1));
  EXPECT_THAT(Warnings()[0].message, HasSubstr("is not fed any more, its rows are kept"));
  feed.reset();
  EXPECT_EQ(KeptStatus(folder_).state(), accel::v1::TrackerStatus::STOPPED);
  EXPECT_EQ(KeptStatus(folder_).last_sequence(), 0);
  feed = MakeFeed(&script);
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_THAT(script.Rows(), ElementsAre(1));
  feed.reset();
  const accel::v1::TrackerStatus kept = KeptStatus(folder_);
  EXPECT_EQ(kept.state(), accel::v1::TrackerStatus::FINISHED);
  EXPECT_EQ(kept.rows(), 1);
  EXPECT_EQ(kept.last_step(), 1);
  EXPECT_EQ(kept.total_failures(), 1);
  EXPECT_THAT(kept.last_error(), HasSubstr("log fails"));
}

TEST_F(TrackerFeedTest, TheServersWishIsLongerThanTheBackoff) {
  Script script;
  script.Fail("log", 1);
  script.error = WithRetryAfter(absl::UnavailableError(""), absl::Seconds(500));
  AppendAndCommit(1);
  auto feed = MakeFeed(&script);
  AwaitFailures(*feed, 1);
  Advance(feed.get(), absl::Seconds(499));
  EXPECT_THAT(script.Rows(), IsEmpty());
  Advance(feed.get(), absl::Seconds(1));
  AwaitSequence(*feed, 1);
}

TEST_F(TrackerFeedTest, RowsThatTheTrackerHoldsComeAgainAfterARestart) {
  Script script;
  script.held_rows = 1;
  for (int step = 1; step <= 3; ++step) AppendAndCommit(step);
  auto feed = MakeFeed(&script);
  AwaitSequence(*feed, 3);
  feed.reset();
  script.held_rows = 0;
  feed = MakeFeed(&script);
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_THAT(script.Rows(), ElementsAre(1, 2, 3, 3));
}

TEST_F(TrackerFeedTest, AConfigurationThatOnlyTheProcessKnowsIsToldToEach) {
  Script script;
  script.configuration_each_time = true;
  AppendAndCommit(1);
  AwaitSequence(*MakeFeed(&script), 1);
  AppendAndCommit(2);
  AwaitSequence(*MakeFeed(&script), 2);
  EXPECT_THAT(script.Calls(),
              ElementsAre("start", "config 1", "log 1", "start 2", "config 1", "log 1"));
}

TEST_F(TrackerFeedTest, StepsThatAreTrainedAgainAreToldAndLeftOutWhereTheFirstOnesStay) {
  for (int step = 1; step <= 4; ++step) Append(step, std::nullopt, 1);
  // Back to step 2; then back again, to step 1.
  for (int step = 3; step <= 5; ++step) Append(step, std::nullopt, 2);
  for (int step = 2; step <= 6; ++step) Append(step, std::nullopt, 3);
  ASSERT_TRUE(writer_->Commit().ok());
  Script last;
  auto feed = MakeFeed(&last);
  AwaitSequence(*feed, 12);
  EXPECT_THAT(last.Rows(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(last.Calls(),
              ElementsAre("start", "config 1", "log 4", "rewind 3", "log 3", "rewind 2", "log 5"));
  ASSERT_THAT(Warnings(), SizeIs(2));
  EXPECT_THAT(Warnings()[0].message, HasSubstr("steps 3 to 4 are trained again: fake gets"));
  EXPECT_THAT(Warnings()[1].message, HasSubstr("steps 2 to 5 are trained again"));
  feed.reset();
  ASSERT_TRUE((*record::TrackerCursors::Open(folder_ / "job.db"))->Set("fake", 0).ok());
  Script first;
  first.rewind = Rewind::kKeepsFirst;
  FeedOptions options;
  // Also where a batch ends in the middle of what is left out.
  options.batch.rows = 3;
  feed = MakeFeed(&first, options);
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_THAT(first.Rows(), ElementsAre(1, 2, 3, 4, 7, 12));
}

TEST_F(TrackerFeedTest, WhatWasLeftOutStaysSoAfterARestart) {
  for (int step = 1; step <= 4; ++step) Append(step, std::nullopt, 1);
  Append(3, std::nullopt, 2);
  ASSERT_TRUE(writer_->Commit().ok());
  Script script;
  script.rewind = Rewind::kKeepsFirst;
  auto feed = MakeFeed(&script);
  AwaitSequence(*feed, 5);
  feed.reset();
  for (int step = 4; step <= 5; ++step) Append(step, std::nullopt, 2);
  ASSERT_TRUE(writer_->Commit().ok());
  feed = MakeFeed(&script);
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
  EXPECT_THAT(script.Rows(), ElementsAre(1, 2, 3, 4, 7));
}

TEST_F(TrackerFeedTest, SecretsAreTakenOutOfWhatIsTold) {
  Script script;
  script.Fail("start", 1);
  {
    absl::MutexLock lock(&script.mutex);
    script.warnings = {"the key start fails"};
  }
  AppendAndCommit(1);
  FeedOptions options;
  options.redact = [](absl::string_view text) {
    return absl::StrReplaceAll(text, {{"fails", "<KEY>"}});
  };
  auto feed = MakeFeed(&script, options);
  AwaitFailures(*feed, 1);
  EXPECT_EQ(feed->Snapshot().last_error.message(), "start <KEY>");
  feed.reset();
  ASSERT_THAT(Warnings(), SizeIs(2));
  for (const FeedWarning& warning : Warnings()) {
    EXPECT_THAT(warning.message, ::testing::Not(HasSubstr("fails")));
  }
  EXPECT_THAT(KeptStatus(folder_).last_error(), HasSubstr("start <KEY>"));
}

TEST_F(TrackerFeedTest, OneTrackersFailureLeavesOthersAlone) {
  Script bad;
  bad.Fail("start", 1000000);
  AppendAndCommit(1);
  auto failing = MakeFeed(&bad);
  AwaitFailures(*failing, 1);
  Script good;
  FeedOptions options;
  auto feed = MakeFeed(&good, options);
  AwaitSequence(*feed, 1);
  EXPECT_THAT(good.Calls(), Contains("log 1"));
  EXPECT_TRUE(feed->Finish(RunOutcome::kSucceeded, absl::InfiniteDuration()).ok());
}

}  // namespace
}  // namespace accel::tracking
