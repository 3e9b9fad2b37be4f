#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/byte_size.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::EarlyStopping;
using accel::v1::JobSpec;
using accel::v1::LoopSpec;

bool HasHeldOutData(const JobSpec& spec) {
  return spec.data().has_evaluation() || spec.data().has_split();
}

void CheckLengthAndFiles(const JobSpec& spec, FieldViolations* violations) {
  const LoopSpec& loop = spec.loop();
  if (loop.has_max_shard_size() && !ParseByteSize(loop.max_shard_size()).has_value()) {
    violations->Add("loop.max_shard_size",
                    NotAllowed(Quoted(loop.max_shard_size()),
                               "a number of bytes above 0, or a number with KB, MB, GB, TB, KiB, "
                               "MiB, GiB or TiB"));
  }
  if (!loop.has_num_epochs() && !loop.has_max_steps()) {
    violations->Add("loop", "required: num_epochs, max_steps or both");
  }
  if (loop.has_evaluate_every_epochs() && spec.has_data() && !HasHeldOutData(spec)) {
    violations->Add("loop.evaluate_every_epochs",
                    "not allowed without data.evaluation or data.split: there is no held-out data");
  }
}

void CheckEarlyStopping(const JobSpec& spec, const EarlyStopping& condition,
                        const std::string& path, FieldViolations* violations) {
  if (!condition.has_patience() && !condition.has_threshold()) {
    violations->Add(path, "required: patience, threshold or both");
  }
  if (condition.has_min_delta() && !condition.has_patience()) {
    violations->Add(FieldPath(path, "min_delta"), "not allowed without patience");
  }
  CheckMetric(spec, condition.metric(), FieldPath(path, "metric"), violations);
}

void CheckLocalSgd(const JobSpec& spec, FieldViolations* violations) {
  if (!spec.loop().has_local_sgd_steps()) return;
  const auto& accelerator = spec.accelerator();
  const auto& ddp = accelerator.ddp_kwargs();
  const auto refuse_if = [&](bool used, absl::string_view what, absl::string_view reason) {
    if (!used) return;
    violations->Add("loop.local_sgd_steps", absl::StrCat("not allowed with ", what, ": ", reason));
  };
  refuse_if(ddp.has_comm_hook() && ddp.comm_hook() != "no", "accelerator.ddp_kwargs.comm_hook",
            "no gradient is communicated");
  refuse_if(ddp.static_graph(), "accelerator.ddp_kwargs.static_graph",
            "no backward pass is a reduction's");
  refuse_if(accelerator.gradient_accumulation_plugin().sync_each_batch(),
            "accelerator.gradient_accumulation_plugin.sync_each_batch", "no gradient is reduced");
  refuse_if(accelerator.mixed_precision() == "fp16", "accelerator.mixed_precision \"fp16\"",
            "each rank would scale its loss by itself");
  refuse_if(spec.loss().averaging() == "items", "loss.averaging \"items\"",
            "it divides by the items of all ranks");
}

void CheckAveraging(const JobSpec& spec, FieldViolations* violations) {
  const auto& plugin = spec.accelerator().gradient_accumulation_plugin();
  const bool goes_on =
      plugin.num_steps() > 1 && plugin.has_sync_with_dataloader() && !plugin.sync_with_dataloader();
  if (spec.loss().averaging() == "items" && goes_on) {
    violations->Add(
        "loss.averaging",
        "\"items\" is not allowed with gradient_accumulation_plugin.sync_with_dataloader "
        "false: the items of a step are counted before it, in one epoch");
  }
}

}  // namespace

void CheckLoop(const JobSpec& spec, FieldViolations* violations) {
  CheckAveraging(spec, violations);
  if (!spec.has_loop()) return;
  CheckLengthAndFiles(spec, violations);
  for (int i = 0; i < spec.loop().early_stopping_size(); ++i) {
    CheckEarlyStopping(spec, spec.loop().early_stopping(i),
                       absl::StrCat("loop.early_stopping[", i, "]"), violations);
  }
  CheckLocalSgd(spec, violations);
}

}  // namespace accel::config
