#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/config/accelerator.h"
#include "core/config/accelerator_defaults.h"
#include "core/config/field_rules.h"
#include "core/config/process_group_options.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using accel::v1::AORecipeKwargs;
using accel::v1::DistributedDataParallelKwargs;
using accel::v1::Float8LinearConfig;
using accel::v1::InitProcessGroupKwargs;
using accel::v1::PowerSGDStateOptions;
using accel::v1::ProfileKwargs;
using accel::v1::ProjectConfiguration;

// c10d counts milliseconds; a longer time overflows Gloo's deadlines sooner or later.
constexpr int64_t kMaxTimeoutSeconds = 31536000;
constexpr int32_t kMinTimeoutNanos = 1000000;

// What one handler's checks need.
struct Scope {
  absl::string_view device;
  std::string path;
  FieldViolations* violations;

  void Refuse(absl::string_view field, absl::string_view reason) const {
    violations->Add(FieldPath(path, field), reason);
  }
  Scope Below(absl::string_view field) const {
    return {device, FieldPath(path, field), violations};
  }
};

bool IsSet(absl::string_view hook) { return !hook.empty() && hook != "no"; }

void CheckPrecision(const AcceleratorConfig& config, const Scope& scope) {
  const bool fp16 = config.mixed_precision() == "fp16";
  if (fp16 && scope.device == "cpu" && !config.emulate_fp16()) {
    scope.Refuse("mixed_precision",
                 "\"fp16\" is not allowed on a CPU device, where Accelerate trains in fp32 without "
                 "a word; allowed: no, bf16, fp8, and fp16 with emulate_fp16 true");
  }
  if (config.emulate_fp16() && scope.device != "cpu") {
    scope.Refuse("emulate_fp16", "only allowed on a CPU device: a GPU needs no emulation");
  }
  if (config.emulate_fp16() && !fp16) {
    scope.Refuse("emulate_fp16", "only allowed with mixed_precision \"fp16\"");
  }
}

// The Reducer counts every backward pass towards what it learns of a static graph, also one that
// reduces nothing; torch fails or goes on with gradients that are not reduced.
void CheckAccumulation(const AcceleratorConfig& config, const Scope& scope) {
  const auto& plugin = config.gradient_accumulation_plugin();
  if (plugin.num_steps() > 1 && config.ddp_kwargs().static_graph() && !plugin.sync_each_batch()) {
    scope.Refuse("ddp_kwargs.static_graph",
                 absl::StrCat("not allowed with gradient_accumulation_plugin.num_steps ",
                              plugin.num_steps(), " unless sync_each_batch is true"));
  }
}

void CheckPowerSgd(const PowerSGDStateOptions& options, const Scope& scope) {
  const bool error_feedback = !options.has_use_error_feedback() || options.use_error_feedback();
  const bool warm_start = !options.has_warm_start() || options.warm_start();
  if ((error_feedback || warm_start) && options.has_start_powersgd_iter() &&
      options.start_powersgd_iter() >= 0 && options.start_powersgd_iter() <= 1) {
    scope.Refuse("start_powerSGD_iter",
                 NotAllowed(absl::StrCat(options.start_powersgd_iter()),
                            "at least 2 with use_error_feedback or warm_start"));
  }
}

void CheckDdp(const DistributedDataParallelKwargs& ddp, const Scope& scope) {
  if (IsSet(ddp.comm_wrapper()) && !IsSet(ddp.comm_hook())) {
    scope.Refuse("comm_wrapper",
                 absl::StrCat(Quoted(ddp.comm_wrapper()), " needs a comm_hook to wrap"));
  }
  if (ddp.comm_hook_overflow_guard() && ddp.comm_hook() != "fp16" && ddp.comm_hook() != "bf16") {
    scope.Refuse("comm_hook_overflow_guard", "only allowed with comm_hook fp16 or bf16");
  }
  if (ddp.comm_hook_overflow_guard() && IsSet(ddp.comm_wrapper())) {
    scope.Refuse("comm_hook_overflow_guard", "not allowed with a comm_wrapper, which casts first");
  }
  if (!ddp.has_comm_state_option()) return;
  if (!IsPowerSgd(ddp.comm_hook())) {
    scope.Refuse("comm_state_option", "only allowed with comm_hook power_sgd or batched_power_sgd");
  }
  CheckPowerSgd(ddp.comm_state_option(), scope.Below("comm_state_option"));
}

void CheckTimeout(const google::protobuf::Duration& timeout, const Scope& scope) {
  const bool well_formed = timeout.nanos() >= 0 && timeout.nanos() < 1000000000;
  const bool long_enough =
      timeout.seconds() > 0 || (timeout.seconds() == 0 && timeout.nanos() >= kMinTimeoutNanos);
  const bool short_enough = timeout.seconds() < kMaxTimeoutSeconds ||
                            (timeout.seconds() == kMaxTimeoutSeconds && timeout.nanos() == 0);
  if (well_formed && long_enough && short_enough) return;
  scope.Refuse("timeout", NotAllowed(absl::StrCat(timeout.seconds(), " s ", timeout.nanos(), " ns"),
                                     absl::StrCat("0.001 s to ", kMaxTimeoutSeconds, " s")));
}

void CheckBackend(const std::string& text, const Scope& scope) {
  const auto backends = ParseBackend(text);
  if (!backends.ok()) return scope.Refuse("backend", backends.status().message());
  const auto serves = [&](absl::string_view backend) {
    return std::any_of(backends->begin(), backends->end(),
                       [&](const auto& entry) { return entry.second == backend; });
  };
  if (scope.device == "cpu" && serves("nccl")) {
    // torch.distributed fails then as well, however many devices the list names.
    scope.Refuse("backend",
                 absl::StrCat(Quoted(text), " needs a CUDA device; allowed on a CPU device: gloo"));
  } else if (!scope.device.empty() && backends->count(std::string(scope.device)) == 0) {
    scope.Refuse("backend",
                 absl::StrCat(Quoted(text), " has no backend for the job's device ", scope.device));
  }
}

void CheckProcessGroup(const InitProcessGroupKwargs& kwargs, const Scope& scope) {
  if (kwargs.has_backend()) CheckBackend(kwargs.backend(), scope);
  if (kwargs.has_init_method()) {
    const auto method = ParseInitMethod(kwargs.init_method());
    if (!method.ok()) scope.Refuse("init_method", method.status().message());
  }
  if (kwargs.has_timeout()) CheckTimeout(kwargs.timeout(), scope);
}

void CheckProfile(const ProfileKwargs& profile, const Scope& scope) {
  for (int i = 0; i < profile.activities_size(); ++i) {
    const std::string& activity = profile.activities(i);
    const bool known =
        activity == "cuda" || activity == "xpu" || activity == "mtia" || activity == "hpu";
    if (known && activity != scope.device) {
      scope.Refuse(
          absl::StrCat("activities[", i, "]"),
          NotAllowed(Quoted(activity), scope.device == "cuda" ? "cpu, cuda on a CUDA device"
                                                              : "cpu on a CPU device"));
    }
  }
  if (profile.has_output_trace_dir()) {
    scope.Refuse("output_trace_dir",
                 "not allowed: traces are kept in the job's own folder and streamed");
  }
}

template <typename Recipe>
void CheckBlockScaling(const Recipe& recipe, const Scope& scope) {
  if (!recipe.use_mxfp8_block_scaling()) return;
  const absl::string_view reason =
      "not allowed with use_mxfp8_block_scaling, which keeps no history";
  if (recipe.has_amax_history_len()) scope.Refuse("amax_history_len", reason);
  if (recipe.has_amax_compute_algo()) scope.Refuse("amax_compute_algo", reason);
}

void CheckCast(const Float8LinearConfig::CastConfig& cast, const Scope& scope) {
  if (cast.scaling_granularity() == "axiswise" && cast.scaling_type() == "disabled") {
    scope.Refuse("scaling_granularity", "\"axiswise\" needs scaling_type dynamic");
  }
}

// torchao's rules: an operand has one format in both its products, and the operands of one product
// are both float8 or both not.
void CheckFloat8(const Float8LinearConfig& given, const Scope& scope) {
  Float8LinearConfig config = given;
  FillFloat8Config(&config);
  using Cast = Float8LinearConfig::CastConfig;
  struct Operand {
    absl::string_view field;
    const Cast& first;
    absl::string_view second_field;
    const Cast& second;
  };
  const Operand operands[] = {
      {"cast_config_input", config.cast_config_input(), "cast_config_input_for_grad_weight",
       config.cast_config_input_for_grad_weight()},
      {"cast_config_weight", config.cast_config_weight(), "cast_config_weight_for_grad_input",
       config.cast_config_weight_for_grad_input()},
      {"cast_config_grad_output", config.cast_config_grad_output(),
       "cast_config_grad_output_for_grad_weight", config.cast_config_grad_output_for_grad_weight()},
  };
  for (const Operand& operand : operands) {
    CheckCast(operand.first, scope.Below(operand.field));
    CheckCast(operand.second, scope.Below(operand.second_field));
    if (operand.first.target_dtype() != operand.second.target_dtype()) {
      scope.Refuse(
          absl::StrCat(operand.second_field, ".target_dtype"),
          NotAllowed(Quoted(operand.second.target_dtype()),
                     absl::StrCat(operand.first.target_dtype(), ", that of ", operand.field)));
    }
  }
  const auto check_product = [&](const Cast& a, absl::string_view a_field, const Cast& b,
                                 absl::string_view b_field) {
    if ((a.scaling_type() == "disabled") != (b.scaling_type() == "disabled")) {
      scope.Refuse(
          absl::StrCat(b_field, ".scaling_type"),
          absl::StrCat("disabled must hold for both or neither of ", a_field, " and ", b_field));
    }
  };
  check_product(operands[0].first, operands[0].field, operands[1].first, operands[1].field);
  check_product(operands[2].first, operands[2].field, operands[1].second, operands[1].second_field);
  check_product(operands[0].second, operands[0].second_field, operands[2].second,
                operands[2].second_field);
  if (config.enable_fsdp_float8_all_gather() &&
      config.cast_config_weight().scaling_granularity() == "axiswise") {
    scope.Refuse("enable_fsdp_float8_all_gather", "needs a tensorwise cast_config_weight");
  }
}

void CheckAo(const AORecipeKwargs& recipe, const Scope& scope) {
  if (!recipe.has_config()) return;
  const absl::string_view reason = "not allowed with config, which has a field of that name";
  if (recipe.has_pad_inner_dim()) scope.Refuse("pad_inner_dim", reason);
  if (recipe.has_enable_fsdp_float8_all_gather()) {
    scope.Refuse("enable_fsdp_float8_all_gather", reason);
  }
  CheckFloat8(recipe.config(), scope.Below("config"));
}

void CheckRecipes(const AcceleratorConfig& config, const Scope& scope) {
  std::vector<absl::string_view> given;
  if (config.has_te_recipe_kwargs()) given.push_back("te_recipe_kwargs");
  if (config.has_ao_recipe_kwargs()) given.push_back("ao_recipe_kwargs");
  if (config.has_msamp_recipe_kwargs()) given.push_back("msamp_recipe_kwargs");
  if (config.has_fp8_recipe_kwargs()) given.push_back("fp8_recipe_kwargs");
  for (absl::string_view recipe : given) {
    if (config.mixed_precision() != "fp8") scope.Refuse(recipe, "needs mixed_precision fp8");
  }
  if (given.size() > 1) {
    scope.Refuse(given.back(),
                 absl::StrCat("only one FP8 recipe is allowed, came ", absl::StrJoin(given, ", ")));
  }
  CheckBlockScaling(config.te_recipe_kwargs(), scope.Below("te_recipe_kwargs"));
  CheckBlockScaling(config.fp8_recipe_kwargs(), scope.Below("fp8_recipe_kwargs"));
  CheckAo(config.ao_recipe_kwargs(), scope.Below("ao_recipe_kwargs"));
}

void CheckProject(const ProjectConfiguration& project, const Scope& scope) {
  const absl::string_view reason = "not allowed: the node keeps a job's files in the job's folder";
  if (project.has_project_dir()) scope.Refuse("project_dir", reason);
  if (project.has_logging_dir()) scope.Refuse("logging_dir", reason);
  if (project.has_automatic_checkpoint_naming() && !project.automatic_checkpoint_naming()) {
    scope.Refuse("automatic_checkpoint_naming",
                 "false is not allowed: the node numbers the checkpoints; allowed: true");
  }
}

}  // namespace

void ValidateAccelerator(const AcceleratorConfig& config, absl::string_view device,
                         absl::string_view prefix, FieldViolations* violations) {
  CheckFields(config, prefix, violations);
  const Scope scope{device, std::string(prefix), violations};
  CheckPrecision(config, scope);
  CheckAccumulation(config, scope);
  CheckDdp(config.ddp_kwargs(), scope.Below("ddp_kwargs"));
  CheckProcessGroup(config.init_process_group_kwargs(), scope.Below("init_process_group_kwargs"));
  CheckProfile(config.profile_kwargs(), scope.Below("profile_kwargs"));
  CheckRecipes(config, scope);
  CheckProject(config.project_config(), scope.Below("project_config"));
}

}  // namespace accel::config
