#include "core/engine/optim/optimizer.h"

#include <utility>

#include "core/base/status_macros.h"
#include "core/engine/optim/grouped_optimizer.h"
#include "core/engine/optim/lbfgs.h"
#include "core/engine/optim/optimizers.h"
#include "core/engine/optim/parameter_groups.h"

namespace accel::engine {

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const accel::v1::OptimizerSpec& spec, std::vector<NamedParameter> parameters) {
  using accel::v1::OptimizerSpec;
  if (spec.has_lbfgs()) {
    return std::make_unique<LbfgsOptimizer>(spec.lbfgs(), std::move(parameters));
  }
  ACCEL_ASSIGN_OR_RETURN(std::vector<GroupedParameter> grouped,
                         GroupParameters(spec.no_decay(), std::move(parameters)));
  switch (spec.optimizer_case()) {
    case OptimizerSpec::kSgd:
      return MakeSgd(spec.sgd(), std::move(grouped));
    case OptimizerSpec::kAdam:
      return MakeAdam(spec.adam(), std::move(grouped));
    case OptimizerSpec::kAdamw:
      return MakeAdamW(spec.adamw(), std::move(grouped));
    case OptimizerSpec::kAdagrad:
      return MakeAdagrad(spec.adagrad(), std::move(grouped));
    case OptimizerSpec::kRmsprop:
      return MakeRmsProp(spec.rmsprop(), std::move(grouped));
    case OptimizerSpec::kLbfgs:
    case OptimizerSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer is missing, allowed are sgd, adam, adamw, adagrad, rmsprop and lbfgs");
}

void Optimizer::StepWith(const Closure& closure) {
  closure();
  Step();
}

}  // namespace accel::engine
