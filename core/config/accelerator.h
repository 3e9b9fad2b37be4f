#ifndef ACCEL_CORE_CONFIG_ACCELERATOR_H_
#define ACCEL_CORE_CONFIG_ACCELERATOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/kwargs.pb.h"
#include "core/base/errors.h"

namespace accel::config {

// What a configuration comes to.
struct ResolvedAccelerator {
  // Every default filled in, the process group's backend and timeout included. Handlers whose
  // absence means "off" (profile, FP8 recipes) stay absent.
  accel::v1::AcceleratorConfig resolved;
  // Only what differs from the defaults: what Accelerate's to_kwargs() returns for each handler
  // that is given. A given handler stays present even where nothing differs, so that this resolves
  // to the same as the whole. Beyond to_kwargs() it shows DDP's hook, wrapper and options, and
  // keeps explicit values that equal the default where another one would apply in their place:
  // `timeout`, `fp8_format` and `amax_compute_algo`.
  accel::v1::AcceleratorConfig difference;
  // Accepted options without effect, `accelerator.ddp_kwargs.dim: <reason>`.
  std::vector<std::string> warnings;
};

// All defaults, every handler present: Accelerate's, save where this node always does something
// else (checkpoints are numbered and hold the position in the data). For reading, not for a job:
// it holds several FP8 recipes.
accel::v1::AcceleratorConfig DefaultAccelerator();

// Adds every invalid value and combination of values under `prefix` (`accelerator`). `device` is
// "cpu" or "cuda".
void ValidateAccelerator(const accel::v1::AcceleratorConfig& config, absl::string_view device,
                         absl::string_view prefix, FieldViolations* violations);

// Adds what is valid and not implemented by this version's training.
void CheckAcceleratorImplemented(const accel::v1::AcceleratorConfig& config,
                                 absl::string_view prefix, FieldViolations* violations);

// Validates and resolves; reads no environment variables. INVALID_ARGUMENT as
// FieldViolations::ToStatus. Does not ask whether the features are implemented.
absl::StatusOr<ResolvedAccelerator> ResolveAccelerator(const accel::v1::AcceleratorConfig& config,
                                                       absl::string_view device,
                                                       absl::string_view prefix = "accelerator");

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_ACCELERATOR_H_
