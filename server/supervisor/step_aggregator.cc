#include "server/supervisor/step_aggregator.h"

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::StepReport;
using accel::v1::MetricRecord;
using google::protobuf::util::TimeUtil;

void SetNumber(MetricRecord* record, const std::string& name, double value) {
  (*record->mutable_values())[name].set_number(value);
}

MetricRecord Merge(const std::map<int, StepReport>& reports) {
  double weighted_loss = 0;
  double plain_loss = 0;
  int64_t samples = 0;
  double seconds = 0;
  int64_t time_us = 0;
  for (const auto& [rank, report] : reports) {
    weighted_loss += report.loss() * static_cast<double>(report.samples());
    plain_loss += report.loss();
    samples += report.samples();
    seconds = std::max(seconds, report.step_seconds());
    time_us = std::max(time_us, report.time_us());
  }
  const StepReport& first = reports.begin()->second;
  MetricRecord record;
  record.set_step(first.step());
  *record.mutable_time() = TimeUtil::MicrosecondsToTimestamp(time_us);
  SetNumber(&record, "train/loss",
            samples > 0 ? weighted_loss / static_cast<double>(samples)
                        : plain_loss / static_cast<double>(reports.size()));
  SetNumber(&record, "train/learning_rate", first.learning_rate());
  SetNumber(&record, "train/epoch", static_cast<double>(first.epoch()));
  if (first.has_grad_norm()) SetNumber(&record, "train/grad_norm", first.grad_norm());
  if (first.has_loss_scaling()) {
    const auto& scaling = first.loss_scaling();
    SetNumber(&record, "train/loss_scale", scaling.scale());
    SetNumber(&record, "train/step_was_skipped", scaling.step_was_skipped() ? 1 : 0);
    SetNumber(&record, "train/skipped_steps", static_cast<double>(scaling.skipped_steps()));
  }
  SetNumber(&record, "perf/step_seconds", seconds);
  if (seconds > 0) {
    SetNumber(&record, "perf/samples_per_second", static_cast<double>(samples) / seconds);
  }
  return record;
}

}  // namespace

std::optional<MetricRecord> StepAggregator::Add(int rank, const StepReport& report) {
  std::map<int, StepReport>& reports = pending_[report.step()];
  reports[rank] = report;
  if (static_cast<int>(reports.size()) < world_size_) return std::nullopt;
  MetricRecord record = Merge(reports);
  // Ranks report in order: an older step that is still incomplete never will be complete.
  pending_.erase(pending_.begin(), pending_.upper_bound(report.step()));
  return record;
}

}  // namespace accel::supervisor
