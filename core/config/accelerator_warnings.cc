#include "core/config/accelerator_warnings.h"

#include "absl/strings/str_cat.h"
#include "core/config/accelerator_defaults.h"
#include "core/config/field_rules.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using accel::v1::DistributedDataParallelKwargs;
using accel::v1::Float8LinearConfig;
using accel::v1::FP8RecipeKwargs;
using accel::v1::PowerSGDStateOptions;

class Warnings {
 public:
  explicit Warnings(absl::string_view prefix) : prefix_(prefix) {}

  void AddIf(bool condition, absl::string_view field, absl::string_view reason) {
    if (condition) list_.push_back(absl::StrCat(FieldPath(prefix_, field), ": ", reason));
  }

  std::vector<std::string> Release() { return std::move(list_); }

 private:
  const std::string prefix_;
  std::vector<std::string> list_;
};

void WarnOfDdp(const DistributedDataParallelKwargs& ddp, Warnings* warnings) {
  warnings->AddIf(ddp.dim() != 0, "ddp_kwargs.dim",
                  "no effect with one device per process: nothing is scattered");
  warnings->AddIf(ddp.check_reduction(), "ddp_kwargs.check_reduction",
                  "no effect: torch does nothing with it");
  warnings->AddIf(ddp.static_graph() && ddp.find_unused_parameters(),
                  "ddp_kwargs.find_unused_parameters",
                  "no effect with static_graph: the first iteration finds them");
  if (ddp.comm_hook() != "batched_power_sgd") return;
  const PowerSGDStateOptions& options = ddp.comm_state_option();
  const absl::string_view reason = "no effect with comm_hook batched_power_sgd";
  warnings->AddIf(options.has_min_compression_rate() && options.min_compression_rate() != 2,
                  "ddp_kwargs.comm_state_option.min_compression_rate", reason);
  warnings->AddIf(options.orthogonalization_epsilon() != 0,
                  "ddp_kwargs.comm_state_option.orthogonalization_epsilon", reason);
  warnings->AddIf(options.batch_tensors_with_same_shape(),
                  "ddp_kwargs.comm_state_option.batch_tensors_with_same_shape", reason);
}

void WarnOfPrecision(const AcceleratorConfig& config, Warnings* warnings) {
  warnings->AddIf(!config.has_mixed_precision() && config.autocast_kwargs().ByteSizeLong() > 0,
                  "autocast_kwargs", "no effect with mixed_precision no: nothing is cast");
  warnings->AddIf(config.mixed_precision() != "fp16" && config.scaler_kwargs().ByteSizeLong() > 0,
                  "scaler_kwargs",
                  "no effect without mixed_precision fp16: the loss is not scaled");
}

void WarnOfAccumulation(const accel::v1::GradientAccumulationPlugin& plugin, Warnings* warnings) {
  if (plugin.num_steps() > 1) return;
  const absl::string_view reason = "no effect with num_steps 1: every batch is a step";
  warnings->AddIf(plugin.has_sync_with_dataloader() && !plugin.sync_with_dataloader(),
                  "gradient_accumulation_plugin.sync_with_dataloader", reason);
  warnings->AddIf(plugin.sync_each_batch(), "gradient_accumulation_plugin.sync_each_batch", reason);
}

void WarnOfFloat8(const Float8LinearConfig& config, absl::string_view device, Warnings* warnings) {
  warnings->AddIf(config.force_recompute_fp8_weight_in_bwd(),
                  "ao_recipe_kwargs.config.force_recompute_fp8_weight_in_bwd",
                  "no effect: torchao does nothing with it");
  const absl::string_view reason = "no effect on a CPU device";
  const bool on_cpu = device == "cpu";
  warnings->AddIf(on_cpu && config.gemm_config_output().has_use_fast_accum() &&
                      !config.gemm_config_output().use_fast_accum(),
                  "ao_recipe_kwargs.config.gemm_config_output.use_fast_accum", reason);
  warnings->AddIf(on_cpu && config.gemm_config_grad_input().use_fast_accum(),
                  "ao_recipe_kwargs.config.gemm_config_grad_input.use_fast_accum", reason);
  warnings->AddIf(on_cpu && config.gemm_config_grad_weight().use_fast_accum(),
                  "ao_recipe_kwargs.config.gemm_config_grad_weight.use_fast_accum", reason);
}

// The fields of the half of this union that its backend does not read.
void WarnOfFp8Recipe(const FP8RecipeKwargs& recipe, Warnings* warnings) {
  if (!IsMsamp(recipe)) {
    warnings->AddIf(recipe.has_opt_level(), "fp8_recipe_kwargs.opt_level",
                    "no effect with backend TE");
    return;
  }
  FP8RecipeKwargs others = recipe;
  others.clear_backend();
  others.clear_opt_level();
  warnings->AddIf(others.ByteSizeLong() > 0, "fp8_recipe_kwargs",
                  "only opt_level has an effect with backend MSAMP");
}

}  // namespace

std::vector<std::string> AcceleratorWarnings(const AcceleratorConfig& config,
                                             const AcceleratorConfig& difference,
                                             absl::string_view device, absl::string_view prefix) {
  Warnings warnings(prefix);
  WarnOfPrecision(difference, &warnings);
  WarnOfDdp(config.ddp_kwargs(), &warnings);
  WarnOfAccumulation(config.gradient_accumulation_plugin(), &warnings);
  warnings.AddIf(config.ao_recipe_kwargs().config().enable_fsdp_float8_all_gather(),
                 "ao_recipe_kwargs.config.enable_fsdp_float8_all_gather",
                 "no effect: weights are not sharded");
  WarnOfFloat8(config.ao_recipe_kwargs().config(), device, &warnings);
  WarnOfFp8Recipe(config.fp8_recipe_kwargs(), &warnings);
  const accel::v1::DataLoaderConfiguration& loader = config.dataloader_config();
  warnings.AddIf(device == "cpu" && loader.non_blocking(), "dataloader_config.non_blocking",
                 "no effect on a CPU device");
  warnings.AddIf(loader.dispatch_batches() && loader.has_even_batches() && !loader.even_batches(),
                 "dataloader_config.even_batches",
                 "no effect with dispatch_batches: a last round is cut in equal parts");
  warnings.AddIf(loader.has_use_stateful_dataloader() && !loader.use_stateful_dataloader(),
                 "dataloader_config.use_stateful_dataloader",
                 "no effect: the position in the data is part of every checkpoint");
  return warnings.Release();
}

}  // namespace accel::config
