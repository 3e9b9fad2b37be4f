#ifndef ACCEL_CORE_ENGINE_LOOP_EARLY_STOPPING_H_
#define ACCEL_CORE_ENGINE_LOOP_EARLY_STOPPING_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "accel/v1/job.pb.h"
#include "accel/v1/training.pb.h"
#include "core/engine/checkpoint/state_section.h"

namespace accel::engine {

// The mean over ranks of an optimizer step's loss, as EarlyStopping.metric names it.
inline constexpr absl::string_view kTrainLoss = "train/loss";

// What LoopSpec.early_stopping watches, as Keras' and Transformers' EarlyStopping do. Every rank
// has its own and shows it the same values in the same order, so that all come to the same end.
class EarlyStopping {
 public:
  EarlyStopping() = default;
  // `loop` is validated.
  explicit EarlyStopping(const accel::v1::LoopSpec& loop);

  // Whether a condition is about `metric`.
  bool Watches(absl::string_view metric) const;

  // Shows a value measured after `step` optimizer steps. The first condition that holds says why
  // training ends; the others have seen the value too.
  std::optional<accel::v1::EarlyStopped> Observe(absl::string_view metric, double value,
                                                 int64_t step);

  // What is known of the conditions, for checkpoints. Restoring takes up what was saved of those
  // that the job still has in the same place; others begin anew. This must outlive the result.
  StateSection Section();

 private:
  struct Condition {
    std::optional<int64_t> patience;
    double min_delta = 0;
    std::optional<double> threshold;
    std::string metric;
    std::string mode;
    // The best value and the step it was measured at; absent before the first finite value.
    std::optional<double> best;
    int64_t best_step = 0;
    // Values since then.
    int64_t waited = 0;

    bool greater_is_better() const { return mode == "max"; }
    bool IsBetter(double value) const;
    bool ReachesThreshold(double value) const;
    // Why training ends; empty where it goes on.
    std::string Observe(double value, int64_t step);
    nlohmann::json Save() const;
    // Throws nlohmann::json::exception where `saved` is not what Save gives.
    void Restore(const nlohmann::json& saved);
  };

  std::vector<Condition> conditions_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_EARLY_STOPPING_H_
