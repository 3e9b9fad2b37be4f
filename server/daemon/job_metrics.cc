#include "server/daemon/job_metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"

namespace accel::daemon {
namespace {

using accel::v1::EventRecord;
using accel::v1::MetricRecord;
using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Edges = prometheus::Histogram::BucketBoundaries;

const Edges& StepEdges() {
  static const auto* const edges =
      new Edges{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 20, 100};
  return *edges;
}

const Edges& StallEdges() {
  static const auto* const edges = new Edges{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60};
  return *edges;
}

std::optional<double> Number(const MetricRecord& row, const std::string& key) {
  const auto found = row.values().find(key);
  if (found == row.values().end() || !found->second.has_number()) return std::nullopt;
  return found->second.number();
}

}  // namespace

JobFamilies::JobFamilies(prometheus::Registry* registry) {
  const auto gauge = [&](const char* key, const char* name, const char* help) {
    gauges[key] = &BuildGauge().Name(name).Help(help).Register(*registry);
  };
  gauge("train/loss", "accel_train_loss", "Newest training loss, mean over ranks.");
  gauge("train/grad_norm", "accel_grad_norm", "Newest gradient norm before clipping.");
  gauge("train/learning_rate", "accel_learning_rate", "Newest learning rate.");
  gauge("train/loss_scale", "accel_loss_scale", "Newest scale of the loss with fp16.");
  gauge("train/skipped_steps", "accel_skipped_steps",
        "Steps of the job skipped because gradients overflowed.");
  gauge("train/epoch", "accel_epoch", "Epoch of the newest step, from 0.");
  gauge("eval/loss", "accel_eval_loss", "Newest evaluation loss.");
  gauge("eval/accuracy", "accel_eval_accuracy", "Newest evaluation accuracy, 0 to 1.");
  gauge("eval/perplexity", "accel_eval_perplexity", "Newest evaluation perplexity.");
  steps = &BuildCounter()
               .Name("accel_steps_total")
               .Help("Optimizer steps done, repeated ones included.")
               .Register(*registry);
  samples = &BuildCounter()
                 .Name("accel_samples_total")
                 .Help("Training samples of all ranks; between two logged rows at their rate.")
                 .Register(*registry);
  step_duration = &BuildHistogram()
                       .Name("accel_step_duration_seconds")
                       .Help("Time of a logged step, the longest of the ranks.")
                       .Register(*registry);
  checkpoint_stall = &BuildHistogram()
                          .Name("accel_checkpoint_stall_seconds")
                          .Help("Longest time for which a rank did not train for a checkpoint.")
                          .Register(*registry);
  checkpoint_bytes = &BuildCounter()
                          .Name("accel_checkpoint_bytes_total")
                          .Help("Bytes of complete checkpoints that were written.")
                          .Register(*registry);
  checkpoint_time = &BuildGauge()
                         .Name("accel_checkpoint_last_success_timestamp_seconds")
                         .Help("When the newest checkpoint was complete, Unix time.")
                         .Register(*registry);
  warnings = &BuildCounter()
                  .Name("accel_job_warnings_total")
                  .Help("Warnings in the job's events.")
                  .Register(*registry);
}

JobMetrics::JobMetrics(JobFamilies* families, std::string job_id)
    : families_(families), job_id_(std::move(job_id)) {}

JobMetrics::~JobMetrics() {
  for (const auto& remove : removals_) remove();
}

template <typename Metric, typename... Arguments>
Metric& JobMetrics::Series(prometheus::Family<Metric>* family, const Arguments&... arguments) {
  void*& known = series_[family];
  if (known == nullptr) {
    Metric* const added = &family->Add({{"job", job_id_}}, arguments...);
    removals_.push_back([family, added] { family->Remove(added); });
    known = added;
  }
  return *static_cast<Metric*>(known);
}

absl::Status JobMetrics::Feed(record::Reader* reader) {
  // Rows beyond this wait for the next time: their attempt's event may not have been read yet.
  ACCEL_ASSIGN_OR_RETURN(const int64_t bound, reader->LastSequence());
  ACCEL_RETURN_IF_ERROR(FeedEvents(reader));
  return FeedMetrics(reader, bound);
}

absl::Status JobMetrics::FeedEvents(record::Reader* reader) {
  while (true) {
    ACCEL_ASSIGN_OR_RETURN(const record::Rows<EventRecord> rows, reader->ReadEvents(events_after_));
    for (const EventRecord& event : rows.records) OnEvent(event);
    events_after_ = std::max(events_after_, rows.next_after);
    if (rows.records.empty()) return absl::OkStatus();
  }
}

absl::Status JobMetrics::FeedMetrics(record::Reader* reader, int64_t bound) {
  while (metrics_after_ < bound) {
    ACCEL_ASSIGN_OR_RETURN(const record::Rows<MetricRecord> rows,
                           reader->ReadMetrics(metrics_after_));
    for (const MetricRecord& row : rows.records) {
      if (row.sequence() > bound) return absl::OkStatus();
      OnMetrics(row);
      metrics_after_ = row.sequence();
    }
    if (rows.records.empty()) return absl::OkStatus();
  }
  return absl::OkStatus();
}

void JobMetrics::OnEvent(const EventRecord& event) {
  switch (event.event_case()) {
    case EventRecord::kTrainingStarted:
      first_step_[event.attempt()] = event.training_started().step();
      break;
    case EventRecord::kCheckpointWritten: {
      const accel::v1::CheckpointWritten& written = event.checkpoint_written();
      Series(families_->checkpoint_stall, StallEdges()).Observe(written.stall_seconds());
      Series(families_->checkpoint_bytes).Increment(static_cast<double>(written.bytes()));
      Series(families_->checkpoint_time)
          .Set(static_cast<double>(
                   google::protobuf::util::TimeUtil::TimestampToMilliseconds(event.time())) /
               1e3);
      break;
    }
    case EventRecord::kWarning:
      Series(families_->warnings).Increment();
      break;
    default:
      break;
  }
}

void JobMetrics::OnMetrics(const MetricRecord& row) {
  for (const auto& [key, family] : families_->gauges) {
    if (const auto value = Number(row, key)) Series(family).Set(*value);
  }
  if (Number(row, "train/loss").has_value()) OnStep(row);
}

void JobMetrics::OnStep(const MetricRecord& row) {
  if (row.attempt() != attempt_) {
    attempt_ = row.attempt();
    const auto first = first_step_.find(attempt_);
    last_step_ = first != first_step_.end() ? first->second : row.step() - 1;
  }
  const auto steps = static_cast<double>(std::max<int64_t>(row.step() - last_step_, 0));
  last_step_ = row.step();
  Series(families_->steps).Increment(steps);
  const auto seconds = Number(row, "perf/step_seconds");
  if (!seconds.has_value()) return;
  Series(families_->step_duration, StepEdges()).Observe(*seconds);
  if (const auto rate = Number(row, "perf/samples_per_second")) {
    Series(families_->samples).Increment(std::round(*rate * *seconds) * steps);
  }
}

}  // namespace accel::daemon
