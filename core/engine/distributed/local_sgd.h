#ifndef ACCEL_CORE_ENGINE_DISTRIBUTED_LOCAL_SGD_H_
#define ACCEL_CORE_ENGINE_DISTRIBUTED_LOCAL_SGD_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// Local SGD (Lin et al. 2018) as accelerate.local_sgd.LocalSGD does it: ranks train apart; now and
// then each parameter becomes its mean over the ranks. Buffers and the optimizer's state stay each
// rank's own. Every rank makes the same calls. What LibTorch throws leaves the methods.
class LocalSgd {
 public:
  // Averages `parameters` after every `period` (at least 1) optimizer steps. `communicator` must
  // outlive this.
  LocalSgd(int64_t period, std::vector<at::Tensor> parameters, Communicator& communicator);

  // Says that `step` optimizer steps are done; averages where a period ends.
  void OnStep(int64_t step);

  // Averages: a barrier, then one all-reduce for each parameter.
  void Average();

  // Whether an optimizer step was done since the last averaging.
  bool apart() const { return apart_; }
  void set_apart(bool apart) { apart_ = apart; }

  // The parameters' means for as long as it lives; then the ranks' own values are back.
  class Averaged {
   public:
    explicit Averaged(LocalSgd& local);
    ~Averaged();
    Averaged(const Averaged&) = delete;
    Averaged& operator=(const Averaged&) = delete;

    // Whether the ranks were apart before.
    bool apart() const { return !own_.empty(); }
    // This rank's own values, in the parameters' order.
    const std::vector<at::Tensor>& own() const { return own_.empty() ? local_.parameters_ : own_; }

   private:
    LocalSgd& local_;
    // Empty where the ranks were not apart.
    std::vector<at::Tensor> own_;
  };

 private:
  const int64_t period_;
  const std::vector<at::Tensor> parameters_;
  Communicator& communicator_;
  bool apart_ = false;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DISTRIBUTED_LOCAL_SGD_H_
