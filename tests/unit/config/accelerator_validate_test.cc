#include "accel/v1/kwargs.pb.h"
#include "core/config/accelerator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::map<std::string, std::string> Validate(absl::string_view text, absl::string_view device) {
  FieldViolations violations;
  ValidateAccelerator(Parse<AcceleratorConfig>(text), device, "accelerator", &violations);
  return ViolationsOf(violations);
}

class RefusedOnCpu : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedOnCpu, NamesPathAndWhatIsAllowed) {
  EXPECT_THAT(Validate(GetParam().text, "cpu"),
              ElementsAre(Pair(absl::StrCat("accelerator.", GetParam().path),
                               HasSubstr(GetParam().description))));
}

INSTANTIATE_TEST_SUITE_P(
    Precision, RefusedOnCpu,
    testing::Values(
        Refusal{"mixed_precision: fp32", "mixed_precision",
                "\"fp32\" is not allowed; allowed: no, fp16, bf16, fp8"},
        Refusal{"mixed_precision: BF16", "mixed_precision", "allowed: no, fp16, bf16, fp8"},
        Refusal{"mixed_precision: ''", "mixed_precision", "\"\" is not allowed"},
        Refusal{"mixed_precision: fp16", "mixed_precision",
                "allowed: no, bf16, fp8, and fp16 with emulate_fp16 true"},
        Refusal{"emulate_fp16: true", "emulate_fp16", "only allowed with mixed_precision \"fp16\""},
        Refusal{"{mixed_precision: bf16, emulate_fp16: true}", "emulate_fp16",
                "only allowed with mixed_precision \"fp16\""},
        Refusal{"scaler_kwargs: {init_scale: 0}", "scaler_kwargs.init_scale",
                "0 is not allowed; allowed: 1.4013e-45 to 3.40282e+38"},
        Refusal{"scaler_kwargs: {init_scale: 1.0e+39}", "scaler_kwargs.init_scale",
                "1e+39 is not allowed; allowed: 1.4013e-45 to 3.40282e+38"},
        Refusal{"scaler_kwargs: {init_scale: .inf}", "scaler_kwargs.init_scale", "finite"},
        Refusal{"scaler_kwargs: {init_scale: .nan}", "scaler_kwargs.init_scale", "finite"},
        Refusal{"scaler_kwargs: {growth_factor: 1}", "scaler_kwargs.growth_factor",
                "1 is not allowed; allowed: above 1"},
        Refusal{"scaler_kwargs: {backoff_factor: 1}", "scaler_kwargs.backoff_factor",
                "1 is not allowed; allowed: above 0 and below 1"},
        Refusal{"scaler_kwargs: {backoff_factor: 0}", "scaler_kwargs.backoff_factor",
                "above 0 and below 1"},
        Refusal{"scaler_kwargs: {growth_interval: 0}", "scaler_kwargs.growth_interval",
                "at least 1"}));

INSTANTIATE_TEST_SUITE_P(
    Ddp, RefusedOnCpu,
    testing::Values(
        Refusal{"ddp_kwargs: {dim: -1}", "ddp_kwargs.dim",
                "-1 is not allowed; allowed: at least 0"},
        Refusal{"ddp_kwargs: {bucket_cap_mb: 0}", "ddp_kwargs.bucket_cap_mb", "at least 1"},
        Refusal{"ddp_kwargs: {comm_hook: FP16}", "ddp_kwargs.comm_hook",
                "allowed: no, fp16, bf16, power_sgd, batched_power_sgd"},
        Refusal{"ddp_kwargs: {comm_hook: fp16, comm_wrapper: power_sgd}", "ddp_kwargs.comm_wrapper",
                "allowed: no, fp16, bf16"},
        Refusal{"ddp_kwargs: {comm_wrapper: fp16}", "ddp_kwargs.comm_wrapper",
                "\"fp16\" needs a comm_hook"},
        Refusal{"ddp_kwargs: {comm_hook: 'no', comm_wrapper: bf16}", "ddp_kwargs.comm_wrapper",
                "needs a comm_hook"},
        Refusal{"ddp_kwargs: {comm_hook: fp16, comm_state_option: {warm_start: true}}",
                "ddp_kwargs.comm_state_option", "power_sgd or batched_power_sgd"},
        Refusal{"ddp_kwargs: {comm_hook_overflow_guard: true}",
                "ddp_kwargs.comm_hook_overflow_guard", "only allowed with comm_hook fp16 or bf16"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, comm_hook_overflow_guard: true}",
                "ddp_kwargs.comm_hook_overflow_guard", "only allowed with comm_hook fp16 or bf16"},
        Refusal{"ddp_kwargs: {comm_hook: fp16, comm_wrapper: bf16, comm_hook_overflow_guard: true}",
                "ddp_kwargs.comm_hook_overflow_guard", "not allowed with a comm_wrapper"},
        Refusal{"ddp_kwargs: {comm_hook: fp16, comm_state_option: {zero_gradient_guard: false}}",
                "ddp_kwargs.comm_state_option", "power_sgd or batched_power_sgd"},
        Refusal{"ddp_kwargs: {comm_state_option: {}}", "ddp_kwargs.comm_state_option",
                "power_sgd or batched_power_sgd"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, "
                "comm_state_option: {matrix_approximation_rank: 0}}",
                "ddp_kwargs.comm_state_option.matrix_approximation_rank", "at least 1"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {start_powerSGD_iter: 1}}",
                "ddp_kwargs.comm_state_option.start_powerSGD_iter",
                "1 is not allowed; allowed: at least 2 with use_error_feedback or warm_start"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, "
                "comm_state_option: {start_powerSGD_iter: 0, use_error_feedback: false}}",
                "ddp_kwargs.comm_state_option.start_powerSGD_iter", "at least 2"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {start_powerSGD_iter: -1, "
                "use_error_feedback: false, warm_start: false}}",
                "ddp_kwargs.comm_state_option.start_powerSGD_iter", "at least 0"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {min_compression_rate: 0}}",
                "ddp_kwargs.comm_state_option.min_compression_rate", "above 0"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, "
                "comm_state_option: {orthogonalization_epsilon: -1}}",
                "ddp_kwargs.comm_state_option.orthogonalization_epsilon", "at least 0"},
        Refusal{"ddp_kwargs: {comm_hook: power_sgd, "
                "comm_state_option: {compression_stats_logging_frequency: 0}}",
                "ddp_kwargs.comm_state_option.compression_stats_logging_frequency", "at least 1"}));

INSTANTIATE_TEST_SUITE_P(
    ProcessGroup, RefusedOnCpu,
    testing::Values(
        Refusal{"init_process_group_kwargs: {backend: mpi}", "init_process_group_kwargs.backend",
                "\"mpi\" is not allowed; allowed: gloo, nccl, cpu:gloo,cuda:nccl"},
        Refusal{"init_process_group_kwargs: {backend: nccl}", "init_process_group_kwargs.backend",
                "\"nccl\" needs a CUDA device; allowed on a CPU device: gloo"},
        Refusal{"init_process_group_kwargs: {backend: 'cpu:gloo,cuda:nccl'}",
                "init_process_group_kwargs.backend", "needs a CUDA device"},
        Refusal{"init_process_group_kwargs: {backend: 'cuda:gloo'}",
                "init_process_group_kwargs.backend",
                "\"cuda:gloo\" has no backend for the job's device cpu"},
        Refusal{"init_process_group_kwargs: {init_method: 'tcp://node7:1'}",
                "init_process_group_kwargs.init_method", "\"node7\" is no IPv4 or IPv6 address"},
        Refusal{"init_process_group_kwargs: {init_method: 'file:///../x'}",
                "init_process_group_kwargs.init_method", "none beginning with \".\""},
        Refusal{"init_process_group_kwargs: {init_method: 'http://a'}",
                "init_process_group_kwargs.init_method",
                "allowed: env://, tcp://host:port with an IP address or localhost, file:///path"},
        Refusal{"init_process_group_kwargs: {init_method: 'tcp://host'}",
                "init_process_group_kwargs.init_method", "tcp://host:port"},
        Refusal{"init_process_group_kwargs: {init_method: 'tcp://host:70000'}",
                "init_process_group_kwargs.init_method", "tcp://host:port"},
        Refusal{"init_process_group_kwargs: {init_method: 'file:///'}",
                "init_process_group_kwargs.init_method", "file:///path"},
        Refusal{"init_process_group_kwargs: {timeout: 0}", "init_process_group_kwargs.timeout",
                "0.001 s to 31536000 s"},
        Refusal{"init_process_group_kwargs: {timeout: -5}", "init_process_group_kwargs.timeout",
                "-5 s"},
        Refusal{"init_process_group_kwargs: {timeout: 1us}", "init_process_group_kwargs.timeout",
                "0.001 s"},
        Refusal{"init_process_group_kwargs: {timeout: 31536001}",
                "init_process_group_kwargs.timeout", "31536001 s"}));

INSTANTIATE_TEST_SUITE_P(
    Profile, RefusedOnCpu,
    testing::Values(
        Refusal{"profile_kwargs: {activities: [cpu, gpu]}", "profile_kwargs.activities[1]",
                "allowed: cpu, cuda, xpu, mtia, hpu"},
        Refusal{"profile_kwargs: {activities: [CPU]}", "profile_kwargs.activities[0]",
                "\"CPU\" is not allowed"},
        Refusal{"profile_kwargs: {activities: [cuda]}", "profile_kwargs.activities[0]",
                "cpu on a CPU device"},
        Refusal{"profile_kwargs: {activities: [xpu]}", "profile_kwargs.activities[0]",
                "cpu on a CPU device"},
        Refusal{"profile_kwargs: {schedule_option: {warmup: 1, active: 1}}",
                "profile_kwargs.schedule_option.wait", "required"},
        Refusal{"profile_kwargs: {schedule_option: {wait: 1, active: 1}}",
                "profile_kwargs.schedule_option.warmup", "required"},
        Refusal{"profile_kwargs: {schedule_option: {wait: 1, warmup: 1}}",
                "profile_kwargs.schedule_option.active", "required"},
        Refusal{"profile_kwargs: {schedule_option: {wait: 1, warmup: 1, active: 0}}",
                "profile_kwargs.schedule_option.active", "at least 1"},
        Refusal{"profile_kwargs: {schedule_option: {wait: -1, warmup: 1, active: 1}}",
                "profile_kwargs.schedule_option.wait", "at least 0"},
        Refusal{"profile_kwargs: {schedule_option: {wait: 1, warmup: 1, active: 1, repeat: -1}}",
                "profile_kwargs.schedule_option.repeat", "at least 0"},
        Refusal{"profile_kwargs: {schedule_option: {wait: 1, warmup: 1, active: 1, "
                "skip_first: -1}}",
                "profile_kwargs.schedule_option.skip_first", "at least 0"},
        Refusal{"profile_kwargs: {output_trace_dir: /tmp/x}", "profile_kwargs.output_trace_dir",
                "the job's own folder"}));

INSTANTIATE_TEST_SUITE_P(
    Fp8, RefusedOnCpu,
    testing::Values(
        Refusal{"te_recipe_kwargs: {}", "te_recipe_kwargs", "needs mixed_precision fp8"},
        Refusal{"{mixed_precision: bf16, ao_recipe_kwargs: {}}", "ao_recipe_kwargs",
                "needs mixed_precision fp8"},
        Refusal{"msamp_recipe_kwargs: {}", "msamp_recipe_kwargs", "needs mixed_precision fp8"},
        Refusal{"fp8_recipe_kwargs: {}", "fp8_recipe_kwargs", "needs mixed_precision fp8"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {}, ao_recipe_kwargs: {}}",
                "ao_recipe_kwargs",
                "only one FP8 recipe is allowed, came te_recipe_kwargs, ao_recipe_kwargs"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {fp8_format: E3M4}}",
                "te_recipe_kwargs.fp8_format", "allowed: HYBRID, E4M3, E5M2"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {amax_compute_algo: min}}",
                "te_recipe_kwargs.amax_compute_algo", "allowed: most_recent, max"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {margin: -1}}", "te_recipe_kwargs.margin",
                "at least 0"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {interval: 0}}",
                "te_recipe_kwargs.interval", "at least 1"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {amax_history_len: 0}}",
                "te_recipe_kwargs.amax_history_len", "at least 1"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: {override_linear_precision: [true]}}",
                "te_recipe_kwargs.override_linear_precision",
                "1 values is not allowed; allowed: 3"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: "
                "{use_mxfp8_block_scaling: true, amax_history_len: 16}}",
                "te_recipe_kwargs.amax_history_len", "use_mxfp8_block_scaling"},
        Refusal{"{mixed_precision: fp8, te_recipe_kwargs: "
                "{use_mxfp8_block_scaling: true, amax_compute_algo: max}}",
                "te_recipe_kwargs.amax_compute_algo", "use_mxfp8_block_scaling"},
        Refusal{"{mixed_precision: fp8, msamp_recipe_kwargs: {opt_level: o1}}",
                "msamp_recipe_kwargs.opt_level", "allowed: O1, O2"},
        Refusal{"{mixed_precision: fp8, fp8_recipe_kwargs: {backend: AO}}",
                "fp8_recipe_kwargs.backend", "allowed: TE, MSAMP"},
        Refusal{"{mixed_precision: fp8, fp8_recipe_kwargs: {opt_level: O3}}",
                "fp8_recipe_kwargs.opt_level", "allowed: O1, O2"},
        Refusal{"{mixed_precision: fp8, fp8_recipe_kwargs: {interval: 0}}",
                "fp8_recipe_kwargs.interval", "at least 1"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: {}, pad_inner_dim: true}}",
                "ao_recipe_kwargs.pad_inner_dim", "not allowed with config"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: "
                "{config: {}, enable_fsdp_float8_all_gather: false}}",
                "ao_recipe_kwargs.enable_fsdp_float8_all_gather", "not allowed with config"}));

INSTANTIATE_TEST_SUITE_P(
    Float8Config, RefusedOnCpu,
    testing::Values(
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: {cast_config_input: "
                "{scaling_type: static}}}}",
                "ao_recipe_kwargs.config.cast_config_input.scaling_type",
                "allowed: dynamic, disabled"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: {cast_config_input: "
                "{target_dtype: e4m3fn}}}}",
                "ao_recipe_kwargs.config.cast_config_input.target_dtype", "allowed: e4m3, e5m2"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: "
                "{cast_config_input_for_grad_weight: {target_dtype: e5m2}}}}",
                "ao_recipe_kwargs.config.cast_config_input_for_grad_weight.target_dtype",
                "allowed: e4m3, that of cast_config_input"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: "
                "{cast_config_weight_for_grad_input: {scaling_type: disabled}}}}",
                "ao_recipe_kwargs.config.cast_config_weight_for_grad_input.scaling_type",
                "cast_config_grad_output and cast_config_weight_for_grad_input"},
        Refusal{"{mixed_precision: fp8, ao_recipe_kwargs: {config: {cast_config_weight: "
                "{scaling_granularity: axiswise}, enable_fsdp_float8_all_gather: true}}}",
                "ao_recipe_kwargs.config.enable_fsdp_float8_all_gather", "tensorwise"}));

INSTANTIATE_TEST_SUITE_P(
    Neighbours, RefusedOnCpu,
    testing::Values(
        Refusal{"gradient_accumulation_plugin: {num_steps: 0}",
                "gradient_accumulation_plugin.num_steps", "at least 1"},
        Refusal{"{gradient_accumulation_plugin: {num_steps: 2}, ddp_kwargs: {static_graph: true}}",
                "ddp_kwargs.static_graph", "num_steps 2 unless sync_each_batch is true"},
        Refusal{"dataloader_config: {data_seed: -1}", "dataloader_config.data_seed", "at least 0"},
        Refusal{"project_config: {project_dir: /tmp}", "project_config.project_dir",
                "the job's folder"},
        Refusal{"project_config: {logging_dir: /tmp}", "project_config.logging_dir",
                "the job's folder"},
        Refusal{"project_config: {automatic_checkpoint_naming: false}",
                "project_config.automatic_checkpoint_naming", "allowed: true"},
        Refusal{"project_config: {total_limit: 0}", "project_config.total_limit", "at least 1"},
        Refusal{"project_config: {iteration: -1}", "project_config.iteration", "at least 0"}));

TEST(ValidateAcceleratorTest, ReportsAllMistakesAtOnce) {
  const auto found = Validate(
      "{ddp_kwargs: {dim: -1, bucket_cap_mb: 0}, scaler_kwargs: {growth_interval: 0}}", "cpu");
  EXPECT_EQ(found.size(), 3u);
}

TEST(ValidateAcceleratorTest, AcceptsTheEdges) {
  for (const char* text : {
           "",
           "mixed_precision: bf16",
           "{mixed_precision: fp16, emulate_fp16: true, scaler_kwargs: {enabled: false}}",
           "{mixed_precision: bf16, emulate_fp16: false}",
           "ddp_kwargs: {comm_hook: fp16, comm_hook_overflow_guard: true}",
           "ddp_kwargs: {comm_hook_overflow_guard: false}",
           "{gradient_accumulation_plugin: {num_steps: 2, sync_each_batch: true}, "
           "ddp_kwargs: {static_graph: true}}",
           "{gradient_accumulation_plugin: {num_steps: 1}, ddp_kwargs: {static_graph: true}}",
           "mixed_precision: fp8",
           "scaler_kwargs: {growth_factor: 1.0000001, backoff_factor: 0.9999999, "
           "growth_interval: 1, init_scale: 1.0e-44}",
           "ddp_kwargs: {dim: 0, bucket_cap_mb: 1, comm_hook: bf16, comm_wrapper: bf16}",
           "ddp_kwargs: {comm_hook: power_sgd, comm_wrapper: fp16, comm_state_option: "
           "{start_powerSGD_iter: 2}}",
           "ddp_kwargs: {comm_hook: batched_power_sgd, comm_state_option: {start_powerSGD_iter: 0, "
           "use_error_feedback: false, warm_start: false, random_seed: 4294967295}}",
           "init_process_group_kwargs: {timeout: 0.001}",
           "init_process_group_kwargs: {timeout: 31536000}",
           "init_process_group_kwargs: {init_method: 'tcp://10.0.0.1:0'}",
           "init_process_group_kwargs: {init_method: 'tcp://[::1]:29500'}",
           "init_process_group_kwargs: {init_method: 'file:///tmp/x'}",
           "init_process_group_kwargs: {init_method: 'env://'}",
           "profile_kwargs: {activities: [cpu], schedule_option: {wait: 0, warmup: 0, active: 1}}",
           "{mixed_precision: fp8, te_recipe_kwargs: {fp8_format: hybrid, amax_compute_algo: MAX, "
           "override_linear_precision: [false, false, true]}}",
           "{mixed_precision: fp8, te_recipe_kwargs: {use_mxfp8_block_scaling: true}}",
           "{mixed_precision: fp8, fp8_recipe_kwargs: {backend: msamp, opt_level: O1}}",
           "{mixed_precision: fp8, ao_recipe_kwargs: {config: {cast_config_input: "
           "{scaling_granularity: axiswise}, cast_config_grad_output: {target_dtype: e4m3}}}}",
           "project_config: {automatic_checkpoint_naming: true, total_limit: 1, iteration: 0}",
       }) {
    EXPECT_THAT(Validate(text, "cpu"), testing::IsEmpty()) << text;
  }
}

TEST(ValidateAcceleratorTest, ACudaDeviceAllowsMore) {
  for (const char* text : {"mixed_precision: fp16", "init_process_group_kwargs: {backend: nccl}",
                           "init_process_group_kwargs: {backend: 'cpu:gloo,cuda:nccl'}",
                           "init_process_group_kwargs: {backend: 'cuda:nccl,cpu:gloo'}",
                           "init_process_group_kwargs: {backend: gloo}",
                           "profile_kwargs: {activities: [cpu, cuda]}"}) {
    EXPECT_THAT(Validate(text, "cuda"), testing::IsEmpty()) << text;
  }
  EXPECT_THAT(Validate("{mixed_precision: fp16, emulate_fp16: true}", "cuda"),
              ElementsAre(Pair("accelerator.emulate_fp16", HasSubstr("only allowed on a CPU"))));
  EXPECT_THAT(
      Validate("profile_kwargs: {activities: [hpu]}", "cuda"),
      ElementsAre(Pair("accelerator.profile_kwargs.activities[0]", HasSubstr("CUDA device"))));
}

// What is valid and not implemented, with the feature's name in the error.
class NotImplementedYet : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(NotImplementedYet, NamesTheFeature) {
  FieldViolations violations;
  CheckAcceleratorImplemented(Parse<AcceleratorConfig>(GetParam().first), "accelerator",
                              &violations);
  const absl::Status status = violations.ToStatus();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("accelerator.", GetParam().second, " is not implemented")));
}

INSTANTIATE_TEST_SUITE_P(Features, NotImplementedYet,
                         testing::Values(std::pair("mixed_precision: fp8",
                                                   "mixed_precision=\"fp8\""),
                                         std::pair("profile_kwargs: {}", "profile_kwargs"),
                                         std::pair("te_recipe_kwargs: {}", "te_recipe_kwargs"),
                                         std::pair("ao_recipe_kwargs: {}", "ao_recipe_kwargs"),
                                         std::pair("fp8_recipe_kwargs: {}", "fp8_recipe_kwargs")));

TEST(CheckAcceleratorImplementedTest, MsampIsRefusedByEveryJob) {
  for (const auto& [text, path] :
       {std::pair("msamp_recipe_kwargs: {}", "accelerator.msamp_recipe_kwargs"),
        std::pair("fp8_recipe_kwargs: {backend: MSAMP}",
                  "accelerator.fp8_recipe_kwargs.backend")}) {
    FieldViolations violations;
    CheckAcceleratorImplemented(Parse<AcceleratorConfig>(text), "accelerator", &violations);
    EXPECT_THAT(ViolationsOf(violations), ElementsAre(Pair(path, HasSubstr("Python only"))));
  }
}

TEST(CheckAcceleratorImplementedTest, WhatIsImplementedPasses) {
  for (const char* text :
       {"", "mixed_precision: 'no'",
        "{mixed_precision: bf16, autocast_kwargs: {enabled: false, cache_enabled: true}}",
        "ddp_kwargs: {broadcast_buffers: false, bucket_cap_mb: 3, find_unused_parameters: true, "
        "gradient_as_bucket_view: true, static_graph: true, comm_hook: 'no', dim: 1}",
        "step_scheduler_with_optimizer: false",
        "{mixed_precision: fp16, emulate_fp16: true, scaler_kwargs: {init_scale: 8}}",
        "gradient_accumulation_plugin: {num_steps: 4, adjust_scheduler: false, "
        "sync_with_dataloader: false, sync_each_batch: true}",
        "init_process_group_kwargs: {backend: gloo, timeout: 5}",
        "dataloader_config: {split_batches: true, dispatch_batches: true, even_batches: false, "
        "use_seedable_sampler: true, data_seed: 3}",
        "project_config: {total_limit: 2, iteration: 7}"}) {
    FieldViolations violations;
    CheckAcceleratorImplemented(Parse<AcceleratorConfig>(text), "accelerator", &violations);
    EXPECT_TRUE(violations.empty()) << text;
  }
}

}  // namespace
}  // namespace accel::config
