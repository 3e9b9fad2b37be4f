#ifndef ACCEL_CORE_ENGINE_DATA_SAMPLER_H_
#define ACCEL_CORE_ENGINE_DATA_SAMPLER_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accel::engine {

// How the samples of an epoch are ordered.
enum class SamplingOrder {
  kSequential,  // 0, 1, ..., n - 1
  kSeedable,    // accelerate's SeedableRandomSampler: randperm seeded with seed + epoch
  // torch's RandomSampler with a generator that is seeded once and runs on. It draws a second
  // permutation at the end of each pass and drops it, so epoch e's order is the draw 2e.
  kRunning,
};

// The order of each epoch; the same on every rank.
class Sampler {
 public:
  // n >= 1 samples.
  Sampler(int64_t n, SamplingOrder order, int64_t seed);

  // Order of an epoch: int64 [n]. Any epoch may be asked for; with kRunning a step back or ahead
  // costs as many draws as lie before it.
  at::Tensor Order(int64_t epoch);

 private:
  at::Tensor Draw();

  const int64_t n_;
  const SamplingOrder order_;
  const int64_t seed_;
  at::Generator generator_;
  // Epoch whose order kRunning draws next.
  int64_t next_epoch_ = 0;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_SAMPLER_H_
