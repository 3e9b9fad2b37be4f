#ifndef ACCEL_CORE_ENGINE_LOOP_LOCAL_SGD_SECTION_H_
#define ACCEL_CORE_ENGINE_LOOP_LOCAL_SGD_SECTION_H_

#include <optional>

#include "core/engine/checkpoint/state_section.h"
#include "core/engine/distributed/local_sgd.h"
#include "core/engine/model/model.h"
#include "core/engine/optim/optimizer.h"

namespace accel::engine {

// What each rank goes on with where ranks train apart: its own weights, buffers and optimizer
// state, in `local_sgd_<rank>` files of a checkpoint. Saving needs a value in `averaged`, since the
// model has the mean then. The arguments must outlive the result.
StateSection LocalSgdSection(LocalSgd& local, const std::optional<LocalSgd::Averaged>& averaged,
                             Model& model, Optimizer& optimizer);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_LOCAL_SGD_SECTION_H_
