#include "core/tracking/feed_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "google/protobuf/util/message_differencer.h"
#include "google/protobuf/util/time_util.h"

namespace accel::tracking {
namespace {

using accel::v1::TrackerStatus;
using google::protobuf::util::TimeUtil;

// Between two writes of a status that only moved on.
constexpr absl::Duration kKeepInterval = absl::Seconds(1);

absl::string_view EffectOf(Rewind rewind) {
  switch (rewind) {
    case Rewind::kKeepsFirst:
      return "keeps their first values, the repeated ones are left out";
    case Rewind::kTakesLast:
      return "gets the repeated values too, which take the place of the first";
    case Rewind::kVoids:
      return "drops its points from the first of these steps on and shows the repeated ones";
  }
  return "";
}

}  // namespace

FeedWorker::FeedWorker(std::unique_ptr<Tracker> tracker, FeedOptions options, const Clock* clock,
                       TrackerFeed::WarningCallback on_warning)
    : tracker_(std::move(tracker)),
      options_(std::move(options)),
      clock_(clock),
      source_(options_.record_path, std::string(tracker_->name()), tracker_->main_process_only(),
              tracker_->rewind() == Rewind::kKeepsFirst, options_.batch),
      random_(std::random_device()()),
      due_(clock->Monotonic()),
      on_warning_(std::move(on_warning)) {
  snapshot_.name = std::string(tracker_->name());
}

void FeedWorker::Run() {
  while (WaitForWork()) {
    const absl::StatusOr<Progress> progress = Step();
    if (progress.ok()) {
      NoteProgress(*progress);
    } else {
      NoteFailure(progress.status());
    }
    KeepStatus(/*now=*/!progress.ok() || *progress != Progress::kMore);
  }
  KeepStatus(/*now=*/true);
}

void FeedWorker::Notify(int64_t sequence) {
  absl::MutexLock lock(&mutex_);
  notified_ = std::max(notified_, sequence);
  if (due_ == absl::InfiniteDuration() && notified_ > snapshot_.last_sequence) {
    due_ = clock_->Monotonic() + options_.batch_delay;
  }
  changed_.SignalAll();
}

FeedSnapshot FeedWorker::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  return snapshot_;
}

bool FeedWorker::FinishWithin(RunOutcome outcome, absl::Duration timeout) {
  const absl::Duration deadline = clock_->Monotonic() + timeout;
  absl::MutexLock lock(&mutex_);
  outcome_ = outcome;
  due_ = clock_->Monotonic();
  changed_.SignalAll();
  while (!snapshot_.finished && !snapshot_.stopped) {
    const absl::Duration left = deadline - clock_->Monotonic();
    if (left <= absl::ZeroDuration()) break;
    changed_.WaitWithTimeout(&mutex_, left);
  }
  return snapshot_.finished;
}

bool FeedWorker::Abandon() {
  bool in_tracker;
  {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
    in_tracker = in_tracker_;
    changed_.SignalAll();
  }
  absl::MutexLock lock(&callback_mutex_);
  on_warning_ = nullptr;
  return !in_tracker;
}

bool FeedWorker::WaitForWork() {
  absl::MutexLock lock(&mutex_);
  while (!abandoned_ && !snapshot_.finished && !snapshot_.stopped) {
    const absl::Duration left = due_ - clock_->Monotonic();
    if (left <= absl::ZeroDuration()) return true;
    changed_.WaitWithTimeout(&mutex_, left);
  }
  return false;
}

absl::StatusOr<FeedWorker::Progress> FeedWorker::Step() {
  ACCEL_RETURN_IF_ERROR(source_.Open());
  std::optional<RunOutcome> outcome;
  {
    // Before the read: rows that were committed before the end was asked for must be in it.
    absl::MutexLock lock(&mutex_);
    outcome = outcome_;
  }
  ACCEL_ASSIGN_OR_RETURN(const FeedSource::Batch batch, source_.Read());
  if (!batch.calls.empty()) {
    ACCEL_RETURN_IF_ERROR(EnsureStarted(batch.calls.front().step));
    if (batch.repeat.has_value()) ACCEL_RETURN_IF_ERROR(AnnounceRepeat(*batch.repeat));
    ACCEL_RETURN_IF_ERROR(Call([&](Tracker& tracker) { return tracker.Log(batch.calls); }));
  }
  ACCEL_RETURN_IF_ERROR(source_.Advance(batch, tracker_->held_from()));
  {
    absl::MutexLock lock(&mutex_);
    snapshot_.last_sequence = source_.position();
    snapshot_.rows += static_cast<int64_t>(batch.calls.size());
    if (!batch.calls.empty()) snapshot_.last_step = batch.calls.back().step;
  }
  if (!batch.at_end) return Progress::kMore;
  if (!outcome.has_value()) return Progress::kCaughtUp;
  ACCEL_RETURN_IF_ERROR(EnsureStarted(std::nullopt));
  ACCEL_RETURN_IF_ERROR(Call([&](Tracker& tracker) { return tracker.Finish(*outcome); }));
  ACCEL_RETURN_IF_ERROR(source_.AdvanceToPosition());
  return Progress::kFinished;
}

absl::Status FeedWorker::EnsureStarted(std::optional<int64_t> first_step) {
  if (!started_) {
    // A tracker that is configured but new in this process goes on with an interrupted run.
    const std::optional<int64_t> resume_step = source_.configured() ? first_step : std::nullopt;
    ACCEL_RETURN_IF_ERROR(Call([&](Tracker& tracker) { return tracker.Start(resume_step); }));
    started_ = true;
  }
  if (source_.configured() && (told_ || !tracker_->wants_configuration_at_each_start())) {
    return absl::OkStatus();
  }
  ACCEL_RETURN_IF_ERROR(Call([&](Tracker& tracker) {
    return tracker.StoreInitConfiguration(options_.init_configuration);
  }));
  told_ = true;
  return source_.configured() ? absl::OkStatus() : source_.MarkConfigured();
}

absl::Status FeedWorker::Call(absl::FunctionRef<absl::Status(Tracker&)> call) {
  {
    absl::MutexLock lock(&mutex_);
    if (abandoned_) return absl::CancelledError("feed has ended");
    in_tracker_ = true;
  }
  absl::Status status = call(*tracker_);
  {
    absl::MutexLock lock(&mutex_);
    in_tracker_ = false;
    if (abandoned_) return absl::CancelledError("feed has ended");
  }
  for (std::string& warning : tracker_->TakeWarnings()) Warn(std::move(warning), 0);
  return status;
}

void FeedWorker::NoteProgress(Progress progress) {
  absl::MutexLock lock(&mutex_);
  snapshot_.failures = 0;
  snapshot_.last_error = absl::OkStatus();
  if (started_) last_success_time_ = clock_->Now();
  switch (progress) {
    case Progress::kMore:
      due_ = clock_->Monotonic();
      break;
    case Progress::kCaughtUp: {
      const bool more = notified_ > snapshot_.last_sequence;
      due_ = more ? clock_->Monotonic() + options_.batch_delay : absl::InfiniteDuration();
      // The end was asked for during the step.
      if (outcome_.has_value()) due_ = clock_->Monotonic();
      break;
    }
    case Progress::kFinished:
      snapshot_.finished = true;
      changed_.SignalAll();
      break;
  }
}

absl::Status FeedWorker::AnnounceRepeat(const RewindFilter::Repeat& repeat) {
  ACCEL_RETURN_IF_ERROR(Call([&](Tracker& tracker) { return tracker.OnRewind(repeat.first); }));
  if (std::exchange(announced_repeat_, repeat.first) == repeat.first) return absl::OkStatus();
  Warn(absl::StrCat("steps ", repeat.first, " to ", repeat.last,
                    " are trained again: ", tracker_->name(), " ", EffectOf(tracker_->rewind())),
       0);
  return absl::OkStatus();
}

void FeedWorker::NoteFailure(const absl::Status& failure) {
  // Payloads stay: they say what to do.
  absl::Status error(failure.code(), options_.redact(failure.message()));
  const bool permanent = IsPermanent(failure);
  bool news;
  int64_t failures;
  {
    absl::MutexLock lock(&mutex_);
    if (abandoned_) return;
    news = snapshot_.last_error != error;
    snapshot_.last_error = error;
    failures = ++snapshot_.failures;
    ++snapshot_.total_failures;
    // The end comes soon: tries that are far apart would not be made at all.
    const absl::Duration wait = std::max(Backoff(outcome_.has_value() ? 1 : failures),
                                         RetryAfter(failure).value_or(absl::ZeroDuration()));
    due_ = clock_->Monotonic() + wait;
    snapshot_.stopped = permanent;
    changed_.SignalAll();
  }
  last_error_text_ = error.ToString();
  last_error_time_ = clock_->Now();
  if (!news) return;
  Warn(absl::StrCat(
           "tracker ", tracker_->name(),
           permanent ? " is not fed any more, its rows are kept: " : " failed, its rows are kept: ",
           error.ToString()),
       failures);
}

absl::Duration FeedWorker::Backoff(int64_t failures) {
  absl::Duration backoff = options_.first_backoff;
  for (int64_t i = 1; i < failures && backoff < options_.max_backoff; ++i) backoff *= 2;
  backoff = std::min(backoff, options_.max_backoff);
  return backoff * std::uniform_real_distribution<double>(0.5, 1.0)(random_);
}

void FeedWorker::Warn(std::string message, int64_t failures) {
  absl::MutexLock lock(&callback_mutex_);
  if (on_warning_ == nullptr) return;
  on_warning_({absl::StrCat("trackers/", tracker_->name()), options_.redact(message), failures});
}

TrackerStatus FeedWorker::Status() {
  TrackerStatus status = source_.kept_status();
  const FeedSnapshot snapshot = Snapshot();
  status.set_name(snapshot.name);
  status.set_last_sequence(source_.position());
  if (snapshot.last_step.has_value()) status.set_last_step(*snapshot.last_step);
  status.set_rows(status.rows() + snapshot.rows);
  status.set_failures(snapshot.failures);
  status.set_total_failures(status.total_failures() + snapshot.total_failures);
  if (!last_error_text_.empty()) {
    status.set_last_error(last_error_text_);
    *status.mutable_last_error_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(last_error_time_));
  }
  if (last_success_time_ > absl::UnixEpoch()) {
    *status.mutable_last_success_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(last_success_time_));
  }
  if (const std::string location = tracker_->location(); !location.empty()) {
    status.set_location(options_.redact(location));
  }
  if (snapshot.finished) {
    status.set_state(TrackerStatus::FINISHED);
  } else if (snapshot.stopped) {
    status.set_state(TrackerStatus::STOPPED);
  } else if (snapshot.failures > 0) {
    status.set_state(TrackerStatus::FAILING);
  } else {
    status.set_state(status.has_last_success_time() ? TrackerStatus::FEEDING
                                                    : TrackerStatus::WAITING);
  }
  return status;
}

void FeedWorker::KeepStatus(bool now) {
  if (!source_.is_open()) return;
  const TrackerStatus status = Status();
  const bool same_state = status.state() == kept_.state();
  if (same_state && !now && clock_->Monotonic() - kept_at_ < kKeepInterval) return;
  if (google::protobuf::util::MessageDifferencer::Equals(status, kept_)) return;
  // A status that cannot be written now is written with the next change.
  if (!source_.Keep(status).ok()) return;
  kept_ = status;
  kept_at_ = clock_->Monotonic();
}

}  // namespace accel::tracking
