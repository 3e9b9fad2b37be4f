#include "core/engine/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

namespace accel::engine {

Sampler::Sampler(int64_t n, SamplingOrder order, int64_t seed)
    : n_(n),
      order_(order),
      seed_(seed),
      generator_(at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) {}

at::Tensor Sampler::Draw() { return at::randperm(n_, generator_, at::TensorOptions(at::kLong)); }

at::Tensor Sampler::Order(int64_t epoch) {
  switch (order_) {
    case SamplingOrder::kSequential:
      return at::arange(n_, at::TensorOptions(at::kLong));
    case SamplingOrder::kSeedable:
      generator_.set_current_seed(static_cast<uint64_t>(seed_) + static_cast<uint64_t>(epoch));
      return Draw();
    case SamplingOrder::kRunning:
      break;
  }
  if (epoch < next_epoch_) {
    generator_.set_current_seed(static_cast<uint64_t>(seed_));
    next_epoch_ = 0;
  }
  at::Tensor order;
  for (; next_epoch_ <= epoch; ++next_epoch_) {
    order = Draw();
    Draw();
  }
  return order;
}

}  // namespace accel::engine
