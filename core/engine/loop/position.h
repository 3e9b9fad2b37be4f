#ifndef ACCEL_CORE_ENGINE_LOOP_POSITION_H_
#define ACCEL_CORE_ENGINE_LOOP_POSITION_H_

#include <cstdint>

namespace accel::engine {

// How far training is.
struct Position {
  int64_t step = 0;     // optimizer steps done
  int64_t epoch = 0;    // epoch that goes on, 0-based
  int64_t batches = 0;  // batches of it that are done
  // Whether these are all of it; so until its evaluation is done.
  bool epoch_complete = false;
  // Batches of the optimizer step that goes on.
  int64_t micro_batches = 0;

  bool operator==(const Position&) const = default;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_POSITION_H_
