#include "server/supervisor/job_record.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/time_util.h"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::Finished;
using accel::internal::v1::FromSupervisor;
using accel::internal::v1::JobStatus;
using accel::v1::Attempt;
using accel::v1::Checkpoint;
using accel::v1::EarlyStopped;
using accel::v1::EventRecord;
using accel::v1::Failure;
using accel::v1::Job;
using accel::v1::LogRecord;
using accel::v1::MetricRecord;
using accel::v1::ProcessGroupInfo;
using accel::v1::Progress;
using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;

Timestamp NowTimestamp(const Clock& clock) {
  return TimeUtil::MicrosecondsToTimestamp(NowMicros(clock));
}

}  // namespace

JobRecord::JobRecord(EventLoop& loop, const Clock& clock, std::unique_ptr<record::Writer> writer,
                     JobStatus status, std::function<void()> on_commit)
    : loop_(loop),
      clock_(clock),
      buffer_(std::move(writer)),
      status_(std::move(status)),
      on_commit_(std::move(on_commit)),
      attempt_(status_.attempts_size()) {}

JobRecord::~JobRecord() {
  if (commit_timer_.has_value()) loop_.Cancel(*commit_timer_);
}

FromSupervisor JobRecord::Committed() const {
  FromSupervisor message;
  *message.mutable_status() = buffer_.committed_status();
  message.set_last_sequence(buffer_.last_sequence());
  return message;
}

void JobRecord::ChangeState(Job::State to) {
  const Job::State from = status_.state();
  EventRecord event =
      NewEvent(absl::StrCat("state ", Job::State_Name(from), " -> ", Job::State_Name(to)));
  event.mutable_state_changed()->set_from(from);
  event.mutable_state_changed()->set_to(to);
  spdlog::info("{}", event.message());
  buffer_.Add(std::move(event));
  status_.set_state(to);
  PublishStatus();
  Commit();
}

void JobRecord::EndJob(Job::State state, const std::optional<Failure>& failure) {
  if (state == Job::FAILED && failure.has_value()) *status_.mutable_failure() = *failure;
  status_.set_end_time_us(NowMicros(clock_));
  ChangeState(state);
}

void JobRecord::BeginAttempt(const Attempt& attempt) {
  attempt_ = attempt.number();
  Attempt* added = status_.add_attempts();
  *added = attempt;
  *added->mutable_start_time() = NowTimestamp(clock_);
  EventRecord event = NewEvent(
      absl::StrCat("attempt ", attempt_, " started with ", attempt.workers_size(), " ranks"));
  *event.mutable_attempt_started() = *added;
  buffer_.Add(std::move(event));
  PublishStatus();
}

void JobRecord::EndAttempt(const std::optional<Failure>& failure) {
  Attempt* attempt = status_.mutable_attempts(status_.attempts_size() - 1);
  *attempt->mutable_end_time() = NowTimestamp(clock_);
  if (failure.has_value()) {
    *attempt->mutable_failure() = *failure;
    EventRecord event = NewEvent(failure->message());
    *event.mutable_failure() = *failure;
    spdlog::error("{}", failure->message());
    buffer_.Add(std::move(event));
  }
  PublishStatus();
}

void JobRecord::BeginTraining(const Progress& progress) {
  *status_.mutable_progress() = progress;
  const auto known = [](int64_t total, absl::string_view before, absl::string_view after) {
    return total > 0 ? absl::StrCat(before, total, after) : "";
  };
  EventRecord event = NewEvent(absl::StrCat("training from step ", progress.step(),
                                            known(progress.total_steps(), " of ", ""),
                                            known(progress.total_epochs(), ", ", " epochs")));
  *event.mutable_training_started() = progress;
  buffer_.Add(std::move(event));
  PublishStatus();
}

void JobRecord::AddProcessGroup(const ProcessGroupInfo& group) {
  // In the order of devices' names, whatever the map's.
  const std::map<std::string, std::string> backends(group.backends().begin(),
                                                    group.backends().end());
  EventRecord event = NewEvent(absl::StrCat(
      "process group of ", group.world_size(),
      " ranks: ", absl::StrJoin(backends, ", ", absl::PairFormatter(" by ")), ", store ",
      group.store(), ", timeout ", absl::FormatDuration(absl::Seconds(group.timeout_seconds()))));
  *event.mutable_process_group() = group;
  buffer_.Add(std::move(event));
  CommitSoon();
}

void JobRecord::SetProgress(int64_t step, int64_t epoch) {
  status_.mutable_progress()->set_step(step);
  status_.mutable_progress()->set_epoch(epoch);
  PublishStatus();
}

void JobRecord::SetFinished(const Finished& finished) {
  // The last steps may have had no report of their own.
  const Progress& progress = status_.progress();
  if (finished.step() > progress.step()) SetProgress(finished.step(), progress.epoch());
  if (finished.has_early_stopped()) SetEarlyStopped(finished.early_stopped());
}

void JobRecord::SetEarlyStopped(const EarlyStopped& stopped) {
  *status_.mutable_early_stopped() = stopped;
  EventRecord event =
      NewEvent(absl::StrCat("stopped early at step ", stopped.step(), ": ", stopped.reason()));
  *event.mutable_early_stopped() = stopped;
  spdlog::info("{}", event.message());
  buffer_.Add(std::move(event));
  PublishStatus();
}

void JobRecord::AddMetrics(MetricRecord record) {
  record.set_attempt(attempt_);
  buffer_.Add(std::move(record));
  CommitSoon();
}

void JobRecord::AddLine(std::optional<int> rank, LogRecord::Source source, std::string text,
                        bool truncated) {
  LogRecord record;
  *record.mutable_time() = NowTimestamp(clock_);
  record.set_attempt(attempt_);
  if (rank.has_value()) record.set_rank(*rank);
  record.set_source(source);
  record.set_text(std::move(text));
  record.set_truncated(truncated);
  buffer_.Add(std::move(record));
  CommitSoon();
}

void JobRecord::Note(std::string text) {
  spdlog::info("{}", text);
  AddLine(std::nullopt, LogRecord::SUPERVISOR, std::move(text), /*truncated=*/false);
}

void JobRecord::AddBatchSizeReduced(int from, int to) {
  EventRecord event = NewEvent(
      absl::StrCat("batch size ", from, " does not fit into memory: the next attempt has ", to));
  event.mutable_batch_size_reduced()->set_from(from);
  event.mutable_batch_size_reduced()->set_to(to);
  spdlog::warn("{}", event.message());
  buffer_.Add(std::move(event));
  CommitSoon();
}

void JobRecord::AddWarning(const std::string& subject, absl::string_view message) {
  EventRecord event = NewEvent(message);
  event.mutable_warning()->set_subject(subject);
  event.mutable_warning()->set_count(++warnings_[subject]);
  spdlog::warn("{}: {}", subject, event.message());
  buffer_.Add(std::move(event));
  CommitSoon();
}

void JobRecord::AddCheckpoint(const Checkpoint& checkpoint, double stall_seconds) {
  EventRecord event =
      NewEvent(absl::StrCat("checkpoint ", checkpoint.name(), " at step ", checkpoint.step()));
  event.mutable_checkpoint_written()->set_name(checkpoint.name());
  event.mutable_checkpoint_written()->set_step(checkpoint.step());
  event.mutable_checkpoint_written()->set_bytes(checkpoint.bytes());
  event.mutable_checkpoint_written()->set_stall_seconds(stall_seconds);
  buffer_.Add(std::move(event));
  buffer_.AddCheckpoint(checkpoint);
  CommitSoon();
}

void JobRecord::RemoveCheckpoint(const std::string& name) {
  buffer_.RemoveCheckpoint(name);
  CommitSoon();
}

EventRecord JobRecord::NewEvent(absl::string_view message) const {
  EventRecord event;
  *event.mutable_time() = NowTimestamp(clock_);
  event.set_attempt(attempt_);
  event.set_message(std::string(message));
  return event;
}

void JobRecord::PublishStatus() {
  status_changed_ = true;
  CommitSoon();
}

void JobRecord::CommitSoon() {
  if (commit_timer_.has_value()) return;
  commit_timer_ = loop_.RunAfter(failing_ ? kRetryInterval : kCommitInterval, [this] {
    commit_timer_.reset();
    Commit();
  });
}

bool JobRecord::Commit() {
  if (std::exchange(status_changed_, false)) buffer_.SetStatus(status_);
  if (!buffer_.dirty()) return true;
  const absl::Status status = buffer_.Commit();
  if (!status.ok()) {
    if (!failing_) spdlog::error("cannot write the record, trying again: {}", status.ToString());
    failing_ = true;
    CommitSoon();
    return false;
  }
  if (failing_) spdlog::info("the record can be written again");
  failing_ = false;
  if (commit_timer_.has_value()) loop_.Cancel(*std::exchange(commit_timer_, std::nullopt));
  on_commit_();
  return true;
}

}  // namespace accel::supervisor
