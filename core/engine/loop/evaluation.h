#ifndef ACCEL_CORE_ENGINE_LOOP_EVALUATION_H_
#define ACCEL_CORE_ENGINE_LOOP_EVALUATION_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/loop/session.h"
#include "core/engine/loop/training.h"

namespace accel::engine {

// How an evaluation ended.
struct EvaluationOutcome {
  // It was broken off; there are no metrics then.
  bool stopped = false;
  // A checkpoint was asked for meanwhile; it is left to the caller.
  bool checkpoint_asked = false;
  // Over all ranks, the same on each: every held-out sample counts once.
  std::map<std::string, double> metrics;
};

// Evaluates the session's held-out data, of which it has some. `begin_tick` says what to do before
// each batch. Every rank calls it. Errors are the data's; what LibTorch throws leaves it.
absl::StatusOr<EvaluationOutcome> Evaluate(Session& session,
                                           const std::function<TickGate::Decision()>& begin_tick);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_EVALUATION_H_
