#ifndef ACCEL_CORE_CONFIG_ACCELERATOR_DEFAULTS_H_
#define ACCEL_CORE_CONFIG_ACCELERATOR_DEFAULTS_H_

#include "absl/strings/string_view.h"
#include "accel/v1/kwargs.pb.h"

namespace accel::config {

// What a freshly built default instance of each of Accelerate's classes holds: the other side of
// to_kwargs()'s comparison. Differs from DefaultAccelerator() where Accelerate's default stands for
// "not set" or this node always does something else.
const accel::v1::AcceleratorConfig& UpstreamDefaults();

// The defaults that apply to `config` on `device`: only of handlers that are on, and only of fields
// that may stand beside those that are set. `config` is valid and its names are folded.
accel::v1::AcceleratorConfig ApplicableDefaults(const accel::v1::AcceleratorConfig& config,
                                                absl::string_view device);

// Fills the absent fields, as torchao's constructor does.
void FillFloat8Config(accel::v1::Float8LinearConfig* config);

// Whether a hook takes PowerSGD's options.
bool IsPowerSgd(absl::string_view comm_hook);

// Whether FP8RecipeKwargs stands for MSAMPRecipeKwargs. Its default is Transformer Engine.
bool IsMsamp(const accel::v1::FP8RecipeKwargs& recipe);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_ACCELERATOR_DEFAULTS_H_
