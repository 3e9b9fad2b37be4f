#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;
using accel::v1::OneCycleSchedule;
using accel::v1::OptimizerSpec;

bool HasMomentum(const OptimizerSpec& optimizer) {
  return optimizer.has_sgd() || optimizer.has_rmsprop() || optimizer.has_adam() ||
         optimizer.has_adamw();
}

bool ScalesLoss(const accel::v1::AcceleratorConfig& config) {
  const auto& scaler = config.scaler_kwargs();
  return config.mixed_precision() == "fp16" && (!scaler.has_enabled() || scaler.enabled());
}

// One step of L-BFGS evaluates the loss of one batch again and again, on all ranks alike.
void CheckLbfgs(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.optimizer().has_lbfgs()) return;
  const auto& accelerator = spec.accelerator();
  const auto refuse_if = [&](bool used, absl::string_view path, absl::string_view reason) {
    if (used) violations->Add(path, absl::StrCat("not allowed with optimizer.lbfgs, ", reason));
  };
  refuse_if(accelerator.gradient_accumulation_plugin().num_steps() > 1,
            "accelerator.gradient_accumulation_plugin.num_steps",
            "which evaluates one batch several times in a step");
  refuse_if(spec.loop().has_clipping(), "loop.clipping",
            "whose steps follow from the loss and its own gradient");
  refuse_if(spec.loop().log_grad_norm(), "loop.log_grad_norm",
            "which has several gradients in a step");
  refuse_if(spec.loop().has_local_sgd_steps(), "loop.local_sgd_steps",
            "whose ranks evaluate one loss together");
  const std::string& nonfinite = spec.loop().on_nonfinite_loss();
  refuse_if(nonfinite == "stop" || nonfinite == "fail", "loop.on_nonfinite_loss",
            "which moves the parameters as it evaluates the loss; allowed: continue");
  refuse_if(ScalesLoss(accelerator), "accelerator.mixed_precision",
            "whose step cannot be skipped when a gradient overflows; allowed: no, bf16, and fp16 "
            "with scaler_kwargs.enabled false");
}

void CheckMomentum(const JobSpec& spec, FieldViolations* violations) {
  const OneCycleSchedule& schedule = spec.schedule().one_cycle();
  const std::string path = "schedule.one_cycle";
  if (schedule.has_cycle_momentum() && !schedule.cycle_momentum()) {
    const absl::string_view reason = "no effect without cycle_momentum";
    if (schedule.has_base_momentum()) violations->Add(path + ".base_momentum", reason);
    if (schedule.has_max_momentum()) violations->Add(path + ".max_momentum", reason);
    return;
  }
  const OptimizerSpec& optimizer = spec.optimizer();
  const bool chosen = optimizer.optimizer_case() != OptimizerSpec::OPTIMIZER_NOT_SET;
  if (spec.schedule().has_one_cycle() && chosen && !HasMomentum(optimizer)) {
    violations->Add(path + ".cycle_momentum",
                    "true, the default, needs an optimizer with a momentum (sgd, rmsprop, adam, "
                    "adamw); allowed: false");
  }
  const double base = schedule.has_base_momentum() ? schedule.base_momentum() : 0.85;
  const double max = schedule.has_max_momentum() ? schedule.max_momentum() : 0.95;
  if (base > max && max >= 0 && base < 1) {
    violations->Add(path + ".base_momentum",
                    NotAllowed(absl::StrCat(base), absl::StrCat("at most max_momentum, ", max)));
  }
}

void CheckPlateau(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.schedule().has_reduce_on_plateau()) return;
  const auto& schedule = spec.schedule().reduce_on_plateau();
  CheckMetric(spec, schedule.has_metric() ? schedule.metric() : "eval/loss",
              "schedule.reduce_on_plateau.metric", violations);
}

}  // namespace

void CheckOptimizer(const JobSpec& spec, FieldViolations* violations) {
  CheckLbfgs(spec, violations);
  CheckMomentum(spec, violations);
  CheckPlateau(spec, violations);
}

}  // namespace accel::config
