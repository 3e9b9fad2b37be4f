#ifndef ACCEL_CLIENT_CLI_PROGRESS_H_
#define ACCEL_CLIENT_CLI_PROGRESS_H_

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "accel/v1/telemetry.pb.h"
#include "client/cli/human.h"

namespace accel::cli {

// Steps a second over the last ten seconds of the job's own clock.
class RateMeter {
 public:
  // `step` optimizer steps were done at `time`. A step that is not above the last one starts anew.
  void Add(absl::Time time, int64_t step);

  // Absent before two steps at different times.
  std::optional<double> StepsPerSecond() const;

 private:
  std::deque<std::pair<absl::Time, int64_t>> points_;
};

// What is known of a job while it is followed.
class ProgressState {
 public:
  explicit ProgressState(std::string label) : label_(std::move(label)) {}

  void OnEvent(const v1::EventRecord& event);
  void OnMetrics(const v1::MetricRecord& record);

  int64_t step() const { return step_; }

  // One line of at most `width` columns, without a line end:
  // `mnist  42% [####------] 332/790  epoch 2/5  415.2 steps/s  eta 1s  loss 0.231  accuracy 0.95`.
  // Where there is little room the bar shrinks, then parts go, the least important first.
  std::string Bar(int width) const;

  // The same without a bar, for logs: `mnist: step 332/790 (42%)  epoch 2/5  ...`.
  std::string Line() const;

 private:
  // Parts behind the steps, {importance, text}, in the order in which they are shown.
  std::vector<std::pair<int, std::string>> Details() const;
  std::string Steps() const;
  std::optional<double> Fraction() const;

  std::string label_;
  std::string state_ = StateName(v1::Job::QUEUED);
  int64_t step_ = 0;
  int64_t total_steps_ = 0;
  int64_t epoch_ = 0;
  int64_t total_epochs_ = 0;
  std::optional<double> loss_;
  std::optional<double> evaluation_loss_;
  std::optional<double> accuracy_;
  RateMeter rate_;
};

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_PROGRESS_H_
