#include "core/engine/loop/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "core/base/status_macros.h"
#include "core/engine/loss.h"

namespace accel::engine {
namespace {

absl::Status AddBatches(Session& session, const std::function<TickGate::Decision()>& begin_tick,
                        EvaluationOutcome* outcome, EvaluationSums* sums, int64_t* samples) {
  at::NoGradGuard no_grad;
  DataLoader& loader = *session.evaluation_loader();
  ACCEL_RETURN_IF_ERROR(loader.StartEpoch(/*epoch=*/0, /*skip_batches=*/0));
  const int64_t rounds = loader.rounds_per_epoch().value_or(0);
  for (int64_t round = 0; round < rounds; ++round) {
    const TickGate::Decision decision = begin_tick();
    outcome->checkpoint_asked |= decision.checkpoint;
    outcome->stopped = decision.stop;
    if (decision.stop) return absl::OkStatus();
    if (round == 0) DrawLoaderSeed();
    ACCEL_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader.Next());
    if (!batch.has_value()) continue;  // other ranks have one more
    const at::Tensor output = session.EvaluationForward(batch->features);
    AddToEvaluation(session.spec().loss(), output, batch->targets, batch->valid, sums);
    *samples += batch->valid;
  }
  return absl::OkStatus();
}

std::map<std::string, double> MetricsOfAllRanks(Session& session, const EvaluationSums& sums,
                                                int64_t samples) {
  at::Tensor all = at::tensor({sums.loss_sum, static_cast<double>(sums.correct),
                               static_cast<double>(sums.count), static_cast<double>(samples)},
                              at::TensorOptions(at::kDouble).device(session.device()));
  session.communicator().AllReduceSum(all);
  const at::Tensor totals = all.cpu();
  const double* total = totals.const_data_ptr<double>();
  std::map<std::string, double> metrics =
      EvaluationMetrics(session.spec().loss(), {.loss_sum = total[0],
                                                .correct = static_cast<int64_t>(total[1]),
                                                .count = static_cast<int64_t>(total[2])});
  metrics["eval/samples"] = total[3];
  return metrics;
}

}  // namespace

absl::StatusOr<EvaluationOutcome> Evaluate(Session& session,
                                           const std::function<TickGate::Decision()>& begin_tick) {
  EvaluationOutcome outcome;
  EvaluationSums sums;
  int64_t samples = 0;
  session.BeginEvaluation();
  const absl::Status added = AddBatches(session, begin_tick, &outcome, &sums, &samples);
  session.EndEvaluation();
  ACCEL_RETURN_IF_ERROR(added);
  if (!outcome.stopped) outcome.metrics = MetricsOfAllRanks(session, sums, samples);
  return outcome;
}

}  // namespace accel::engine
