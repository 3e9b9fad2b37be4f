#include "core/config/accelerator_defaults.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/config/accelerator.h"
#include "google/protobuf/text_format.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using accel::v1::AORecipeKwargs;
using accel::v1::DataLoaderConfiguration;
using accel::v1::Float8LinearConfig;
using accel::v1::FP8RecipeKwargs;
using accel::v1::InitProcessGroupKwargs;
using accel::v1::ProfileKwargs;
using accel::v1::ProfileScheduleOption;
using accel::v1::TERecipeKwargs;

constexpr char kDefaults[] = R"pb(
  mixed_precision: "no"
  step_scheduler_with_optimizer: true
  emulate_fp16: false
  autocast_kwargs { enabled: true }
  ddp_kwargs {
    dim: 0
    broadcast_buffers: true
    bucket_cap_mb: 25
    find_unused_parameters: false
    check_reduction: false
    gradient_as_bucket_view: false
    static_graph: false
    comm_hook: "no"
    comm_wrapper: "no"
    comm_hook_overflow_guard: false
    comm_state_option {
      matrix_approximation_rank: 1
      start_powerSGD_iter: 1000
      min_compression_rate: 2
      use_error_feedback: true
      warm_start: true
      orthogonalization_epsilon: 0
      random_seed: 0
      compression_stats_logging_frequency: 10000
      batch_tensors_with_same_shape: false
      zero_gradient_guard: true
    }
  }
  scaler_kwargs {
    init_scale: 65536
    growth_factor: 2
    backoff_factor: 0.5
    growth_interval: 2000
    enabled: true
  }
  init_process_group_kwargs {
    backend: "nccl"
    timeout { seconds: 600 }
  }
  profile_kwargs {
    record_shapes: false
    profile_memory: false
    with_stack: false
    with_flops: false
    with_modules: false
  }
  te_recipe_kwargs {
    use_autocast_during_eval: false
    margin: 0
    interval: 1
    fp8_format: "HYBRID"
    amax_history_len: 1024
    amax_compute_algo: "most_recent"
    override_linear_precision: [ false, false, false ]
    use_mxfp8_block_scaling: false
  }
  ao_recipe_kwargs { pad_inner_dim: true enable_fsdp_float8_all_gather: true }
  msamp_recipe_kwargs { opt_level: "O2" }
  fp8_recipe_kwargs {
    backend: "TE"
    use_autocast_during_eval: false
    margin: 0
    interval: 1
    fp8_format: "HYBRID"
    amax_history_len: 1024
    amax_compute_algo: "most_recent"
    override_linear_precision: [ false, false, false ]
    use_mxfp8_block_scaling: false
    opt_level: "O2"
  }
  gradient_accumulation_plugin {
    num_steps: 1
    adjust_scheduler: true
    sync_with_dataloader: true
    sync_each_batch: false
  }
  dataloader_config {
    split_batches: false
    even_batches: true
    use_seedable_sampler: false
    non_blocking: false
    use_stateful_dataloader: true
  }
  project_config { automatic_checkpoint_naming: true iteration: 0 save_on_each_node: false }
)pb";

constexpr int64_t kNcclTimeoutSeconds = 600;
constexpr int64_t kOtherTimeoutSeconds = 1800;

// Transformer Engine's fields for one of the two recipes that have them: `defaults` loses what must
// not stand beside block scaling.
template <typename Recipe>
void PruneMxfp8(const Recipe& given, Recipe* defaults) {
  if (!given.use_mxfp8_block_scaling()) return;
  defaults->clear_amax_history_len();
  defaults->clear_amax_compute_algo();
}

void PruneFp8Recipe(const FP8RecipeKwargs& given, FP8RecipeKwargs* defaults) {
  if (!IsMsamp(given)) {
    defaults->clear_opt_level();
    PruneMxfp8(given, defaults);
    return;
  }
  FP8RecipeKwargs msamp;
  msamp.set_backend("MSAMP");
  msamp.set_opt_level(defaults->opt_level());
  *defaults = msamp;
}

void CompleteProfile(const ProfileKwargs& given, absl::string_view device,
                     ProfileKwargs* defaults) {
  defaults->add_activities("cpu");
  if (device == "cuda") defaults->add_activities("cuda");
  if (!given.has_schedule_option()) return;
  ProfileScheduleOption* schedule = defaults->mutable_schedule_option();
  schedule->set_repeat(0);
  schedule->set_skip_first(0);
  schedule->set_skip_first_wait(0);
}

// Backend and timeout as they really apply: Accelerate replaces the default backend on a CPU job
// and drops the default timeout, so that Gloo's own holds.
void CompleteProcessGroup(const InitProcessGroupKwargs& given, absl::string_view device,
                          InitProcessGroupKwargs* defaults) {
  defaults->set_backend(device == "cuda" ? "nccl" : "gloo");
  const std::string& backend = given.has_backend() ? given.backend() : defaults->backend();
  defaults->mutable_timeout()->set_seconds(backend == "nccl" ? kNcclTimeoutSeconds
                                                             : kOtherTimeoutSeconds);
}

void FillCast(absl::string_view dtype, Float8LinearConfig::CastConfig* config) {
  if (!config->has_scaling_type()) config->set_scaling_type("dynamic");
  if (!config->has_scaling_granularity()) config->set_scaling_granularity("tensorwise");
  if (!config->has_target_dtype()) config->set_target_dtype(std::string(dtype));
}

}  // namespace

AcceleratorConfig DefaultAccelerator() {
  static const auto* const defaults = [] {
    auto* config = new AcceleratorConfig;
    if (!google::protobuf::TextFormat::ParseFromString(kDefaults, config)) abort();
    return config;
  }();
  return *defaults;
}

const AcceleratorConfig& UpstreamDefaults() {
  static const auto* const defaults = [] {
    auto* config = new AcceleratorConfig(DefaultAccelerator());
    config->mutable_ddp_kwargs()->clear_comm_state_option();
    config->mutable_gradient_accumulation_plugin()->clear_num_steps();
    config->mutable_fp8_recipe_kwargs()->clear_opt_level();
    config->mutable_dataloader_config()->set_use_stateful_dataloader(false);
    config->mutable_project_config()->set_automatic_checkpoint_naming(false);
    return config;
  }();
  return *defaults;
}

AcceleratorConfig ApplicableDefaults(const AcceleratorConfig& config, absl::string_view device) {
  AcceleratorConfig defaults = DefaultAccelerator();
  if (!IsPowerSgd(config.ddp_kwargs().comm_hook())) {
    defaults.mutable_ddp_kwargs()->clear_comm_state_option();
  }
  CompleteProcessGroup(config.init_process_group_kwargs(), device,
                       defaults.mutable_init_process_group_kwargs());
  CompleteProfile(config.profile_kwargs(), device, defaults.mutable_profile_kwargs());
  PruneMxfp8(config.te_recipe_kwargs(), defaults.mutable_te_recipe_kwargs());
  PruneFp8Recipe(config.fp8_recipe_kwargs(), defaults.mutable_fp8_recipe_kwargs());
  if (config.ao_recipe_kwargs().has_config()) {
    AORecipeKwargs* recipe = defaults.mutable_ao_recipe_kwargs();
    recipe->Clear();
    *recipe->mutable_config() = config.ao_recipe_kwargs().config();
    FillFloat8Config(recipe->mutable_config());
  }
  // Every source of this node knows its length, so Accelerate's rule comes to "no".
  defaults.mutable_dataloader_config()->set_dispatch_batches(false);

  if (!config.has_profile_kwargs()) defaults.clear_profile_kwargs();
  if (!config.has_te_recipe_kwargs()) defaults.clear_te_recipe_kwargs();
  if (!config.has_ao_recipe_kwargs()) defaults.clear_ao_recipe_kwargs();
  if (!config.has_msamp_recipe_kwargs()) defaults.clear_msamp_recipe_kwargs();
  if (!config.has_fp8_recipe_kwargs()) defaults.clear_fp8_recipe_kwargs();
  return defaults;
}

void FillFloat8Config(Float8LinearConfig* config) {
  FillCast("e4m3", config->mutable_cast_config_input());
  FillCast("e4m3", config->mutable_cast_config_weight());
  FillCast("e5m2", config->mutable_cast_config_grad_output());
  // An absent second cast is the first one; a given one has the defaults of its operand.
  if (!config->has_cast_config_input_for_grad_weight()) {
    *config->mutable_cast_config_input_for_grad_weight() = config->cast_config_input();
  }
  if (!config->has_cast_config_weight_for_grad_input()) {
    *config->mutable_cast_config_weight_for_grad_input() = config->cast_config_weight();
  }
  if (!config->has_cast_config_grad_output_for_grad_weight()) {
    *config->mutable_cast_config_grad_output_for_grad_weight() = config->cast_config_grad_output();
  }
  FillCast("e4m3", config->mutable_cast_config_input_for_grad_weight());
  FillCast("e4m3", config->mutable_cast_config_weight_for_grad_input());
  FillCast("e5m2", config->mutable_cast_config_grad_output_for_grad_weight());
  Float8LinearConfig filled;
  filled.mutable_gemm_config_output()->set_use_fast_accum(true);
  filled.mutable_gemm_config_grad_input()->set_use_fast_accum(false);
  filled.mutable_gemm_config_grad_weight()->set_use_fast_accum(false);
  filled.set_enable_fsdp_float8_all_gather(false);
  filled.set_pad_inner_dim(false);
  filled.set_emulate(false);
  filled.set_force_recompute_fp8_weight_in_bwd(false);
  filled.set_round_scales_to_power_of_2(false);
  filled.MergeFrom(*config);
  *config = filled;
}

bool IsPowerSgd(absl::string_view comm_hook) {
  return comm_hook == "power_sgd" || comm_hook == "batched_power_sgd";
}

bool IsMsamp(const FP8RecipeKwargs& recipe) {
  return absl::EqualsIgnoreCase(recipe.backend(), "MSAMP");
}

}  // namespace accel::config
