#include "core/engine/loop/training.h"

#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loop/session.h"
#include "core/engine/loop/trainer.h"

namespace accel::engine {
namespace {

using accel::internal::v1::Finished;
using accel::internal::v1::StartAttempt;
using accel::internal::v1::WorkerReport;

absl::StatusOr<Finished> Train(Session& session, TickGate& gate, TrainingObserver& observer) {
  Trainer trainer(session, gate, observer);
  absl::StatusOr<Finished> finished = Guarded("", [&] { return trainer.Run(); });
  if (!finished.ok()) return WithStep(finished.status(), trainer.step_begun());
  session.communicator().Finish();
  return finished;
}

Finished StoppedBeforeFirstStep() {
  Finished finished;
  finished.set_stopped(true);
  return finished;
}

}  // namespace

absl::StatusOr<Finished> RunTraining(const StartAttempt& start, TickGate& gate,
                                     TrainingObserver& observer) {
  const auto warn = [&observer](const std::string& subject, const std::string& message) {
    ReportWarning(observer, subject, message);
  };
  absl::StatusOr<std::unique_ptr<Session>> session = Guarded("start-up", [&] {
    return Session::Create(
        start, [&gate] { return gate.StopRequested(); }, warn);
  });
  if (!session.ok()) {
    // Ranks that stop while they start leave the others with half a process group.
    if (gate.StopRequested()) return StoppedBeforeFirstStep();
    return session.status();
  }
  if (start.rank() == 0 && start.world_size() > 1) {
    WorkerReport report;
    *report.mutable_process_group() = DescribeGroup(start);
    observer.OnReport(std::move(report));
  }
  return Train(**session, gate, observer);
}

}  // namespace accel::engine
