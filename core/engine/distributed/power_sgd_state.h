#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_STATE_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_STATE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "accel/v1/kwargs.pb.h"
#include "core/engine/checkpoint/safetensors.h"

namespace accel::engine {

// What a PowerSGD hook is told and what it remembers, as torch's PowerSGDState. Used by one thread
// at a time.
class PowerSgdState {
 public:
  using Options = accel::v1::PowerSGDStateOptions;

  // One bucket's memory; undefined tensors where there is none yet.
  struct Memory {
    at::Tensor error;  // what compression took from this rank's last gradient; differs by rank
    at::Tensor q;      // all right factors, flat; equal on all ranks
  };

  // `options` are resolved: every field is set. `log` takes a line for the rank's log.
  PowerSgdState(const Options& options, std::function<void(const std::string&)> log);

  const Options& options() const { return options_; }
  int64_t iteration() const { return iteration_; }

  // Whether buckets are still reduced uncompressed.
  bool starting() const { return iteration_ < options_.start_powersgd_iter(); }

  // Ends a bucket; the last one's end is the iteration's.
  void EndBucket(bool last) { iteration_ += last ? 1 : 0; }

  Memory& MemoryOf(size_t bucket) { return memories_[bucket]; }

  // Drops the memories that hold a value that is not finite: after an iteration whose gradients
  // overflowed, which error feedback would carry into all later ones.
  void ForgetNonFinite();

  // The next seed for a bucket's first Q; the same on all ranks. From numpy's
  // RandomState(random_seed).randint(1000000000).
  uint64_t NextSeed();

  // Adds to the statistics of all iterations, in elements.
  void Count(int64_t before, int64_t after);
  // With the last bucket of an iteration, logs the statistics where it is time to.
  void ReportStatistics(bool last);

  // All that a later run needs to go on exactly. CPU tensors by name.
  NamedTensors Save() const;
  // Restores what Save gave, onto `device`. INVALID_ARGUMENT names what is wrong; the state is
  // then as it was.
  absl::Status Restore(const NamedTensors& saved, at::Device device);

 private:
  const Options options_;
  const std::function<void(const std::string&)> log_;
  std::mt19937 seeds_;
  int64_t draws_ = 0;  // from seeds_
  int64_t iteration_ = 0;
  int64_t elements_before_ = 0;
  int64_t elements_after_ = 0;
  int64_t next_report_ = 0;  // iteration
  std::map<size_t, Memory> memories_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_POWER_SGD_STATE_H_
