#ifndef ACCEL_CORE_ENGINE_OPTIM_OPTIMIZERS_H_
#define ACCEL_CORE_ENGINE_OPTIM_OPTIMIZERS_H_

#include <memory>
#include <vector>

#include "core/engine/optim/grouped_optimizer.h"

// The optimizers behind Optimizer::Create.
namespace accel::engine {

std::unique_ptr<Optimizer> MakeSgd(const accel::v1::Sgd& spec,
                                   std::vector<GroupedParameter> parameters);
std::unique_ptr<Optimizer> MakeAdam(const accel::v1::Adam& spec,
                                    std::vector<GroupedParameter> parameters);
std::unique_ptr<Optimizer> MakeAdamW(const accel::v1::AdamW& spec,
                                     std::vector<GroupedParameter> parameters);
std::unique_ptr<Optimizer> MakeAdagrad(const accel::v1::Adagrad& spec,
                                       std::vector<GroupedParameter> parameters);
std::unique_ptr<Optimizer> MakeRmsProp(const accel::v1::RmsProp& spec,
                                       std::vector<GroupedParameter> parameters);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_OPTIMIZERS_H_
