#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;
using accel::v1::LoopSpec;
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

template <typename Schedule>
void CheckSchedule(const Schedule& schedule, absl::string_view path, FieldViolations* violations) {
  if (!schedule.has_total_steps() || schedule.total_steps() < 1) return;
  if (schedule.total_steps() <= schedule.warmup_steps()) {
    violations->Add(FieldPath(path, "total_steps"),
                    NotAllowed(absl::StrCat(schedule.total_steps()),
                               absl::StrCat("above warmup_steps, ", schedule.warmup_steps())));
  }
}

void CheckLoop(const JobSpec& spec, FieldViolations* violations) {
  const LoopSpec& loop = spec.loop();
  if (!loop.has_num_epochs() && !loop.has_max_steps()) {
    violations->Add("loop", "required: num_epochs, max_steps or both");
  }
  if (loop.has_evaluate_every_epochs() && spec.has_data() && !spec.data().has_evaluation() &&
      !spec.data().has_split()) {
    violations->Add("loop.evaluate_every_epochs",
                    "not allowed without data.evaluation or data.split: there is no held-out data");
  }
}

}  // namespace

void CheckTraining(const JobSpec& spec, FieldViolations* violations) {
  CheckSgd(spec.optimizer().sgd(), violations);
  CheckSchedule(spec.schedule().linear(), "schedule.linear", violations);
  CheckSchedule(spec.schedule().cosine(), "schedule.cosine", violations);
  if (spec.has_loop()) CheckLoop(spec, violations);
}

}  // namespace accel::config
