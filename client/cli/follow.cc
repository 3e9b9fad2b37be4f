#include "client/cli/follow.h"

#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/human.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress_display.h"
#include "core/base/status_macros.h"

namespace accel::cli {
namespace {

template <typename Request>
Request FollowRequest(const std::string& name) {
  Request request;
  request.set_name(name);
  request.mutable_range()->set_follow(true);
  return request;
}

// The two streams of a followed job, and what an interrupt does to them.
class Follower {
 public:
  Follower(Context& context, client::Client& client, const std::string& name)
      : context_(context),
        client_(client),
        name_(name),
        display_(context.io, std::string(absl::StripPrefix(name, "jobs/"))),
        events_(client.StreamEvents(FollowRequest<v1::StreamEventsRequest>(name))),
        metrics_(client.StreamMetrics(FollowRequest<v1::StreamMetricsRequest>(name))) {
    context_.note_sink = [this](absl::string_view line) { display_.PrintLine(line); };
  }
  ~Follower() { context_.note_sink = nullptr; }

  // Whether the user left, or why the events ended too early.
  absl::StatusOr<bool> Run() {
    InterruptListener interrupts([this](int count) { OnInterrupt(count); });
    std::thread metrics([this] { ShowMetrics(); });
    const absl::Status status = ShowEvents();
    // The job's last metrics are still on their way after an orderly end.
    if (!status.ok()) metrics_->Cancel();
    metrics.join();
    if (detached_) return true;
    if (!status.ok()) return status;
    return false;
  }

 private:
  absl::Status ShowEvents() {
    while (true) {
      ACCEL_ASSIGN_OR_RETURN(const std::optional<v1::EventRecord> event, events_->Next());
      if (!event.has_value()) return absl::OkStatus();
      display_.OnEvent(*event);
    }
  }

  void ShowMetrics() {
    while (true) {
      const absl::StatusOr<std::optional<v1::MetricRecord>> record = metrics_->Next();
      if (!record.ok()) {
        if (record.status().code() != absl::StatusCode::kCancelled) {
          context_.Note(absl::StrCat("metrics are no longer shown: ", record.status().message()));
        }
        return;
      }
      if (!record->has_value()) return;
      display_.OnMetrics(**record);
    }
  }

  void OnInterrupt(int count) {
    if (count == 1) {
      context_.Note(
          absl::StrCat("asking ", name_, " to stop in order; interrupt again to leave it alone"));
      v1::CancelJobRequest request;
      request.set_name(name_);
      if (const absl::Status status = client_.CancelJob(request).status(); !status.ok()) {
        context_.Note(absl::StrCat("cannot stop ", name_, ": ", status.message()));
      }
      return;
    }
    detached_ = true;
    events_->Cancel();
    metrics_->Cancel();
  }

  Context& context_;
  client::Client& client_;
  const std::string name_;
  ProgressDisplay display_;
  const std::unique_ptr<client::EventStream> events_;
  const std::unique_ptr<client::MetricStream> metrics_;
  std::atomic<bool> detached_ = false;
};

}  // namespace

absl::StatusOr<FollowOutcome> FollowJob(Context& context, client::Client& client,
                                        const std::string& name) {
  FollowOutcome outcome;
  {
    Follower follower(context, client, name);
    ACCEL_ASSIGN_OR_RETURN(outcome.detached, follower.Run());
  }
  v1::GetJobRequest request;
  request.set_name(name);
  ACCEL_ASSIGN_OR_RETURN(outcome.job, client.GetJob(request));
  return outcome;
}

std::string OutcomeLine(const v1::Job& job) {
  std::string line = absl::StrCat(job.name(), " ", StateName(job.state()));
  if (job.has_start_time() && job.has_end_time()) {
    absl::StrAppend(&line, " after ",
                    HumanDuration(ToTime(job.end_time()) - ToTime(job.start_time())));
  }
  if (job.has_progress()) absl::StrAppend(&line, ", ", job.progress().step(), " steps");
  if (job.has_early_stopped()) {
    absl::StrAppend(&line, ", stopped early: ", EscapeControls(job.early_stopped().reason()));
  }
  if (job.has_failure()) absl::StrAppend(&line, ": ", EscapeControls(job.failure().message()));
  return line;
}

}  // namespace accel::cli
