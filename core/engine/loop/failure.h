#ifndef ACCEL_CORE_ENGINE_LOOP_FAILURE_H_
#define ACCEL_CORE_ENGINE_LOOP_FAILURE_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "accel/v1/job.pb.h"

namespace accel::engine {

// Marks a status that is not OK with its cause, for CauseOf. An earlier mark stays.
absl::Status WithCause(absl::Status status, accel::v1::Failure::Cause cause);

// Marks a status that is not OK with the last step that had begun, for StepOf.
absl::Status WithStep(absl::Status status, int64_t step);

// Whether a status carries a mark of WithCause.
bool HasCause(const absl::Status& status);

// The exception being handled as a status with its cause: an allocator's refusal is OUT_OF_MEMORY,
// an error of c10d, Gloo or NCCL is COLLECTIVE, anything else INTERNAL. The message is the
// exception's first line, after `what` where that is not empty. Call it only in a catch block.
absl::Status StatusOfCurrentException(absl::string_view what);

// Runs `function`, which returns a Status or StatusOr, and turns what it throws into a status.
template <typename Function>
auto Guarded(absl::string_view what, Function&& function) -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return StatusOfCurrentException(what);
  }
}

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_FAILURE_H_
