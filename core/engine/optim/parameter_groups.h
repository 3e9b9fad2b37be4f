#ifndef ACCEL_CORE_ENGINE_OPTIM_PARAMETER_GROUPS_H_
#define ACCEL_CORE_ENGINE_OPTIM_PARAMETER_GROUPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "accel/v1/optimizer.pb.h"
#include "core/engine/optim/grouped_optimizer.h"

namespace accel::engine {

// The parameters in their order, each with its group: without weight decay where `no_decay` says
// so. INVALID_ARGUMENT when one of name_contains is in no name.
absl::StatusOr<std::vector<GroupedParameter>> GroupParameters(
    const accel::v1::NoDecay& no_decay, std::vector<NamedParameter> parameters);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_PARAMETER_GROUPS_H_
