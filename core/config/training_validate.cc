#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;
using accel::v1::MultiStepSchedule;
using accel::v1::NoDecay;
using accel::v1::OptimizerSpec;
using accel::v1::ScheduleSpec;
using accel::v1::Sgd;

void CheckSgd(const Sgd& sgd, FieldViolations* violations) {
  if (!sgd.nesterov()) return;
  if (sgd.momentum() == 0) {
    violations->Add("optimizer.sgd.nesterov", "needs momentum above 0");
  }
  if (sgd.dampening() != 0) {
    violations->Add("optimizer.sgd.dampening",
                    NotAllowed(absl::StrCat(sgd.dampening()), "0 with nesterov"));
  }
}

// The chosen optimizer's.
double WeightDecay(const OptimizerSpec& spec) {
  switch (spec.optimizer_case()) {
    case OptimizerSpec::kSgd:
      return spec.sgd().weight_decay();
    case OptimizerSpec::kAdam:
      return spec.adam().weight_decay();
    case OptimizerSpec::kAdamw:
      return spec.adamw().has_weight_decay() ? spec.adamw().weight_decay() : 0.01;
    case OptimizerSpec::kAdagrad:
      return spec.adagrad().weight_decay();
    case OptimizerSpec::kRmsprop:
      return spec.rmsprop().weight_decay();
    case OptimizerSpec::kLbfgs:
    case OptimizerSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return 0;
}

double LearningRate(const OptimizerSpec& spec) {
  const auto rate = [](const auto& optimizer, double otherwise) {
    return optimizer.has_lr() ? optimizer.lr() : otherwise;
  };
  if (spec.has_sgd()) return rate(spec.sgd(), 0.001);
  if (spec.has_adam()) return rate(spec.adam(), 0.001);
  if (spec.has_adamw()) return rate(spec.adamw(), 0.001);
  if (spec.has_adagrad()) return rate(spec.adagrad(), 0.01);
  if (spec.has_lbfgs()) return rate(spec.lbfgs(), 1);
  return rate(spec.rmsprop(), 0.01);
}

void CheckNoDecay(const OptimizerSpec& spec, FieldViolations* violations) {
  if (!spec.has_no_decay()) return;
  const NoDecay& no_decay = spec.no_decay();
  if (!no_decay.biases() && !no_decay.norms() && no_decay.name_contains().empty()) {
    violations->Add("optimizer.no_decay", "required: biases, norms or name_contains");
  }
  if (WeightDecay(spec) == 0 && spec.optimizer_case() != OptimizerSpec::OPTIMIZER_NOT_SET) {
    violations->Add("optimizer.no_decay", "needs weight_decay above 0");
  }
  for (int i = 0; i < no_decay.name_contains_size(); ++i) {
    if (!no_decay.name_contains(i).empty()) continue;
    violations->Add(absl::StrCat("optimizer.no_decay.name_contains[", i, "]"),
                    NotAllowed("\"\"", "1 to 256 bytes"));
  }
}

template <typename Schedule>
void CheckWarmup(const Schedule& schedule, absl::string_view path, FieldViolations* violations) {
  if (!schedule.has_total_steps() || schedule.total_steps() < 1) return;
  if (schedule.total_steps() <= schedule.warmup_steps()) {
    violations->Add(FieldPath(path, "total_steps"),
                    NotAllowed(absl::StrCat(schedule.total_steps()),
                               absl::StrCat("above warmup_steps, ", schedule.warmup_steps())));
  }
}

void CheckPolynomial(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.schedule().has_polynomial()) return;
  if (spec.optimizer().optimizer_case() == OptimizerSpec::OPTIMIZER_NOT_SET) return;
  const auto& polynomial = spec.schedule().polynomial();
  const double last_rate = polynomial.has_lr_end() ? polynomial.lr_end() : 1e-7;
  const double rate = LearningRate(spec.optimizer());
  if (last_rate < rate || rate < 0 || !std::isfinite(last_rate)) return;
  violations->Add(
      "schedule.polynomial.lr_end",
      NotAllowed(absl::StrCat(last_rate), absl::StrCat("below the optimizer's lr, ", rate)));
}

void CheckMilestones(const MultiStepSchedule& schedule, FieldViolations* violations) {
  for (int i = 1; i < schedule.milestones_size(); ++i) {
    if (schedule.milestones(i) < 1) continue;
    if (schedule.milestones(i) > schedule.milestones(i - 1)) continue;
    violations->Add(absl::StrCat("schedule.multi_step.milestones[", i, "]"),
                    NotAllowed(absl::StrCat(schedule.milestones(i)),
                               absl::StrCat("above the one before, ", schedule.milestones(i - 1))));
  }
}

void CheckSchedule(const JobSpec& spec, FieldViolations* violations) {
  const ScheduleSpec& schedule = spec.schedule();
  CheckWarmup(schedule.linear(), "schedule.linear", violations);
  CheckWarmup(schedule.cosine(), "schedule.cosine", violations);
  CheckWarmup(schedule.cosine_with_restarts(), "schedule.cosine_with_restarts", violations);
  CheckWarmup(schedule.polynomial(), "schedule.polynomial", violations);
  CheckPolynomial(spec, violations);
  CheckMilestones(schedule.multi_step(), violations);
  const auto& one_cycle = schedule.one_cycle();
  if (one_cycle.three_phase() && one_cycle.pct_start() > 0.5 && one_cycle.pct_start() < 1) {
    violations->Add("schedule.one_cycle.pct_start", NotAllowed(absl::StrCat(one_cycle.pct_start()),
                                                               "at most 0.5 with three_phase"));
  }
}

}  // namespace

void CheckTraining(const JobSpec& spec, FieldViolations* violations) {
  CheckSgd(spec.optimizer().sgd(), violations);
  CheckNoDecay(spec.optimizer(), violations);
  CheckSchedule(spec, violations);
}

}  // namespace accel::config
