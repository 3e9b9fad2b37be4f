#include "core/config/accelerator.h"
#include "core/config/accelerator_defaults.h"
#include "core/config/field_rules.h"

namespace accel::config {

void CheckAcceleratorImplemented(const accel::v1::AcceleratorConfig& config,
                                 absl::string_view prefix, FieldViolations* violations) {
  const auto missing_if = [&](bool used, absl::string_view feature) {
    if (used) violations->AddNotImplemented(FieldPath(prefix, feature));
  };

  missing_if(config.mixed_precision() == "fp8", "mixed_precision=\"fp8\"");
  missing_if(config.has_profile_kwargs(), "profile_kwargs");
  missing_if(config.has_te_recipe_kwargs(), "te_recipe_kwargs");
  missing_if(config.has_ao_recipe_kwargs(), "ao_recipe_kwargs");
  missing_if(config.has_fp8_recipe_kwargs() && !IsMsamp(config.fp8_recipe_kwargs()),
             "fp8_recipe_kwargs");

  const absl::string_view no_msamp = "not allowed in a job: MS-AMP exists for Python only";
  if (config.has_msamp_recipe_kwargs()) {
    violations->Add(FieldPath(prefix, "msamp_recipe_kwargs"), no_msamp);
  }
  if (IsMsamp(config.fp8_recipe_kwargs())) {
    violations->Add(FieldPath(prefix, "fp8_recipe_kwargs.backend"), no_msamp);
  }
}

}  // namespace accel::config
