#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::Dataset;
using accel::v1::DataSpec;
using accel::v1::JobSpec;
using accel::v1::ScheduleSpec;

void CheckWorkers(const JobSpec& spec, FieldViolations* violations) {
  const DataSpec& data = spec.data();
  if (data.has_prefetch_factor() && data.num_workers() == 0) {
    violations->Add("data.prefetch_factor", "not allowed without num_workers above 0");
  }
  if (data.pin_memory() && spec.device() != "cuda") {
    violations->Add("data.pin_memory",
                    "true is not allowed on a CPU device: nothing is copied from page-locked "
                    "memory there");
  }
}

// The schedule's field whose default is the length of the job; empty where there is none, or where
// it is set.
std::string LengthField(const ScheduleSpec& schedule) {
  const auto field = [](const auto& message, absl::string_view name) {
    return message.has_total_steps() ? "" : absl::StrCat("schedule.", name, ".total_steps");
  };
  switch (schedule.schedule_case()) {
    case ScheduleSpec::kLinear:
      return field(schedule.linear(), "linear");
    case ScheduleSpec::kCosine:
      return field(schedule.cosine(), "cosine");
    case ScheduleSpec::kCosineWithRestarts:
      return field(schedule.cosine_with_restarts(), "cosine_with_restarts");
    case ScheduleSpec::kPolynomial:
      return field(schedule.polynomial(), "polynomial");
    case ScheduleSpec::kOneCycle:
      return field(schedule.one_cycle(), "one_cycle");
    default:
      return "";
  }
}

void CheckOrder(const DataSpec& data, FieldViolations* violations) {
  const bool buffer = data.streaming().has_shuffle_buffer();
  if (data.has_shuffle() && data.shuffle() && !buffer) {
    violations->Add("data.shuffle",
                    "true is not allowed with streaming unless it has a shuffle_buffer: a stream "
                    "comes in the file's order");
  }
  if (data.has_shuffle() && !data.shuffle() && buffer) {
    violations->Add("data.streaming.shuffle_buffer", "not allowed with shuffle false");
  }
}

void CheckStreaming(const JobSpec& spec, FieldViolations* violations) {
  const DataSpec& data = spec.data();
  const Dataset& train = data.train();
  if (train.format_case() != Dataset::FORMAT_NOT_SET && !train.has_csv() && !train.has_npy() &&
      !train.has_bytes()) {
    violations->Add("data.streaming", "not allowed with this format; allowed: csv, npy, bytes");
  }
  if (data.has_split()) {
    violations->Add("data.split",
                    "not allowed with streaming, whose samples are not known beforehand");
  }
  CheckOrder(data, violations);
  const auto& loader = spec.accelerator().dataloader_config();
  if (loader.use_seedable_sampler()) {
    violations->Add("accelerator.dataloader_config.use_seedable_sampler",
                    "true is not allowed with data.streaming, which has no sampler");
  }
  const bool dispatches = !loader.has_dispatch_batches() || loader.dispatch_batches();
  if (dispatches && loader.has_even_batches() && !loader.even_batches()) {
    violations->Add("accelerator.dataloader_config.even_batches",
                    "false is not allowed with data.streaming unless dispatch_batches is false: "
                    "a last round is cut in equal parts");
  }
  const std::string length = LengthField(spec.schedule());
  if (!spec.loop().has_max_steps() && !length.empty()) {
    violations->Add(length,
                    "required with data.streaming and without loop.max_steps: the length "
                    "of the job is not known beforehand");
  }
}

}  // namespace

void CheckLoading(const JobSpec& spec, FieldViolations* violations) {
  CheckWorkers(spec, violations);
  if (spec.data().has_streaming()) CheckStreaming(spec, violations);
}

}  // namespace accel::config
