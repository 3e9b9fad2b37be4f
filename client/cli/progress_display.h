#ifndef ACCEL_CLIENT_CLI_PROGRESS_DISPLAY_H_
#define ACCEL_CLIENT_CLI_PROGRESS_DISPLAY_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "accel/v1/telemetry.pb.h"
#include "client/cli/io.h"
#include "client/cli/progress.h"

namespace accel::cli {

// Shows on standard error how a job goes on. On a terminal: a bar that is drawn over itself, at
// most ten times a second, with other lines above it. Elsewhere: a line for each event and each
// evaluation, and one every five seconds. Thread-safe.
class ProgressDisplay {
 public:
  // `label` names the job. `io` must outlive the display.
  ProgressDisplay(const Io& io, std::string label);
  // Leaves the last bar standing.
  ~ProgressDisplay();

  void OnEvent(const v1::EventRecord& event);
  void OnMetrics(const v1::MetricRecord& record);
  // A line of its own; must hold no control characters.
  void PrintLine(absl::string_view line);

 private:
  void PrintLineLocked(absl::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Io& io_;
  absl::Mutex mutex_;
  ProgressState state_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  int64_t last_line_step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool drawn_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_PROGRESS_DISPLAY_H_
