#ifndef ACCEL_CORE_ENGINE_OPTIM_REDUCE_ON_PLATEAU_H_
#define ACCEL_CORE_ENGINE_OPTIM_REDUCE_ON_PLATEAU_H_

#include <cstdint>
#include <optional>
#include <string>

#include "accel/v1/schedule.pb.h"

namespace accel::engine {

// torch.optim.lr_scheduler.ReduceLROnPlateau for one learning rate: its decisions and arithmetic.
class ReduceOnPlateau {
 public:
  // What a checkpoint keeps of it.
  struct State {
    double rate = 0;
    // Absent before the first value that is better than none.
    std::optional<double> best;
    int64_t bad_values = 0;
    int64_t cooldown = 0;
    // What Add has added up since the last EndEpoch.
    double loss_sum = 0;
    int64_t losses = 0;

    bool operator==(const State&) const = default;
  };

  // `spec` is validated.
  ReduceOnPlateau(const accel::v1::ReduceOnPlateauSchedule& spec, double rate);

  // The metric whose values it wants.
  const std::string& metric() const { return metric_; }

  // Takes the next value of the metric.
  void Observe(double value);

  // With the metric "train/loss": adds an optimizer step's loss; the mean of those of an epoch is
  // the metric's next value.
  void Add(double loss);
  void EndEpoch();

  double rate() const { return state_.rate; }
  const State& state() const { return state_; }
  void Restore(const State& state) { state_ = state; }

 private:
  bool IsBetter(double value) const;

  const accel::v1::ReduceOnPlateauSchedule spec_;
  const std::string metric_;
  const bool greater_is_better_;
  State state_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_REDUCE_ON_PLATEAU_H_
