#include "accel/v1/kwargs.pb.h"
#include "core/config/accelerator.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ResolvedAccelerator Resolve(absl::string_view text, absl::string_view device = "cpu") {
  auto result = ResolveAccelerator(Parse<AcceleratorConfig>(text), device);
  EXPECT_TRUE(result.ok()) << result.status() << "\n" << text;
  return result.ok() ? *result : ResolvedAccelerator();
}

void ExpectDifference(absl::string_view text, absl::string_view expected,
                      absl::string_view device = "cpu") {
  const AcceleratorConfig difference = Resolve(text, device).difference;
  EXPECT_TRUE(MessageDifferencer::Equals(difference, Parse<AcceleratorConfig>(expected)))
      << text << "\ngave\n"
      << FormatYaml(difference);
}

TEST(DefaultAcceleratorTest, HoldsEveryHandler) {
  const AcceleratorConfig defaults = DefaultAccelerator();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  defaults.GetReflection()->ListFields(defaults, &fields);
  EXPECT_EQ(static_cast<int>(fields.size()), AcceleratorConfig::descriptor()->field_count());
  EXPECT_EQ(defaults.init_process_group_kwargs().backend(), "nccl");
  EXPECT_EQ(defaults.init_process_group_kwargs().timeout().seconds(), 600);
  EXPECT_EQ(defaults.scaler_kwargs().init_scale(), 65536);
  EXPECT_EQ(defaults.te_recipe_kwargs().override_linear_precision_size(), 3);
}

TEST(ResolveTest, NothingGivenMeansGlooAndItsTimeoutOnCpu) {
  const ResolvedAccelerator result = Resolve("");
  EXPECT_EQ(result.resolved.init_process_group_kwargs().backend(), "gloo");
  EXPECT_EQ(result.resolved.init_process_group_kwargs().timeout().seconds(), 1800);
  EXPECT_EQ(result.resolved.mixed_precision(), "no");
  EXPECT_EQ(result.resolved.ddp_kwargs().bucket_cap_mb(), 25);
  EXPECT_FALSE(result.resolved.ddp_kwargs().has_comm_state_option());
  EXPECT_FALSE(result.resolved.has_profile_kwargs());
  EXPECT_FALSE(result.resolved.has_te_recipe_kwargs());
  EXPECT_FALSE(result.resolved.has_ao_recipe_kwargs());
  EXPECT_FALSE(result.resolved.has_msamp_recipe_kwargs());
  EXPECT_FALSE(result.resolved.has_fp8_recipe_kwargs());
  EXPECT_FALSE(result.resolved.autocast_kwargs().has_cache_enabled());
  EXPECT_TRUE(result.resolved.dataloader_config().has_dispatch_batches());
  EXPECT_EQ(result.difference.ByteSizeLong(), 0u);
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST(ResolveTest, TimeoutFollowsTheBackendThatApplies) {
  const auto timeout = [](absl::string_view text, absl::string_view device) {
    return Resolve(text, device).resolved.init_process_group_kwargs().timeout().seconds();
  };
  EXPECT_EQ(timeout("", "cuda"), 600);
  EXPECT_EQ(timeout("init_process_group_kwargs: {backend: nccl}", "cuda"), 600);
  EXPECT_EQ(timeout("init_process_group_kwargs: {backend: gloo}", "cuda"), 1800);
  EXPECT_EQ(timeout("init_process_group_kwargs: {backend: 'cpu:gloo,cuda:nccl'}", "cuda"), 1800);
  EXPECT_EQ(timeout("init_process_group_kwargs: {backend: gloo}", "cpu"), 1800);
  EXPECT_EQ(timeout("init_process_group_kwargs: {backend: gloo, timeout: 600}", "cpu"), 600);
  EXPECT_EQ(timeout("init_process_group_kwargs: {timeout: 600}", "cpu"), 600);
  EXPECT_EQ(timeout("init_process_group_kwargs: {timeout: 1800}", "cuda"), 1800);
}

TEST(ResolveTest, FoldsNamesWhereAccelerateDoes) {
  const AcceleratorConfig te =
      Resolve(
          "{mixed_precision: fp8, te_recipe_kwargs: {fp8_format: e4m3, amax_compute_algo: MAX}}")
          .resolved;
  EXPECT_EQ(te.te_recipe_kwargs().fp8_format(), "E4M3");
  EXPECT_EQ(te.te_recipe_kwargs().amax_compute_algo(), "max");
  const AcceleratorConfig fp8 =
      Resolve("{mixed_precision: fp8, fp8_recipe_kwargs: {backend: te}}").resolved;
  EXPECT_EQ(fp8.fp8_recipe_kwargs().backend(), "TE");
  EXPECT_FALSE(fp8.fp8_recipe_kwargs().has_opt_level());
}

TEST(ResolveTest, FillsOnlyWhatMayStandBesideWhatIsSet) {
  const AcceleratorConfig mx =
      Resolve("{mixed_precision: fp8, te_recipe_kwargs: {use_mxfp8_block_scaling: true}}").resolved;
  EXPECT_FALSE(mx.te_recipe_kwargs().has_amax_history_len());
  EXPECT_FALSE(mx.te_recipe_kwargs().has_amax_compute_algo());
  EXPECT_EQ(mx.te_recipe_kwargs().fp8_format(), "HYBRID");

  const AcceleratorConfig ao =
      Resolve(
          "{mixed_precision: fp8, ao_recipe_kwargs: {config: {cast_config_input: "
          "{scaling_granularity: axiswise}}}}")
          .resolved;
  EXPECT_FALSE(ao.ao_recipe_kwargs().has_pad_inner_dim());
  const accel::v1::Float8LinearConfig& config = ao.ao_recipe_kwargs().config();
  EXPECT_EQ(config.cast_config_input().target_dtype(), "e4m3");
  EXPECT_EQ(config.cast_config_input_for_grad_weight().scaling_granularity(), "axiswise");
  EXPECT_EQ(config.cast_config_grad_output().target_dtype(), "e5m2");
  EXPECT_TRUE(config.gemm_config_output().use_fast_accum());
  EXPECT_FALSE(config.gemm_config_grad_input().use_fast_accum());

  const AcceleratorConfig msamp =
      Resolve("{mixed_precision: fp8, fp8_recipe_kwargs: {backend: msamp}}").resolved;
  EXPECT_EQ(msamp.fp8_recipe_kwargs().opt_level(), "O2");
  EXPECT_FALSE(msamp.fp8_recipe_kwargs().has_margin());

  const AcceleratorConfig power_sgd =
      Resolve("ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {random_seed: 7}}").resolved;
  EXPECT_EQ(power_sgd.ddp_kwargs().comm_state_option().random_seed(), 7u);
  EXPECT_EQ(power_sgd.ddp_kwargs().comm_state_option().start_powersgd_iter(), 1000);

  const AcceleratorConfig profile =
      Resolve("profile_kwargs: {schedule_option: {wait: 1, warmup: 1, active: 2}}", "cuda")
          .resolved;
  EXPECT_THAT(profile.profile_kwargs().activities(), ElementsAre("cpu", "cuda"));
  EXPECT_TRUE(profile.profile_kwargs().schedule_option().has_skip_first_wait());
}

TEST(DifferenceTest, DropsWhatEqualsTheDefault) {
  ExpectDifference("autocast_kwargs: {enabled: true}", "autocast_kwargs: {}");
  ExpectDifference("autocast_kwargs: {cache_enabled: false}",
                   "autocast_kwargs: {cache_enabled: false}");
  ExpectDifference("ddp_kwargs: {bucket_cap_mb: 25, static_graph: true}",
                   "ddp_kwargs: {static_graph: true}");
  ExpectDifference("{mixed_precision: 'no', step_scheduler_with_optimizer: true}", "");
  ExpectDifference("{mixed_precision: bf16, step_scheduler_with_optimizer: false}",
                   "{mixed_precision: bf16, step_scheduler_with_optimizer: false}");
}

TEST(DifferenceTest, ShowsWhatGoesBeyondAccelerate) {
  ExpectDifference("{mixed_precision: fp16, emulate_fp16: true}",
                   "{mixed_precision: fp16, emulate_fp16: true}");
  ExpectDifference("{emulate_fp16: false, ddp_kwargs: {comm_hook_overflow_guard: false}}",
                   "ddp_kwargs: {}");
  ExpectDifference("ddp_kwargs: {comm_hook: bf16, comm_hook_overflow_guard: true}",
                   "ddp_kwargs: {comm_hook: bf16, comm_hook_overflow_guard: true}");
}

TEST(ResolveTest, GuardsHaveTheirDefaults) {
  EXPECT_FALSE(Resolve("").resolved.ddp_kwargs().comm_hook_overflow_guard());
  EXPECT_TRUE(Resolve("ddp_kwargs: {comm_hook: power_sgd}")
                  .resolved.ddp_kwargs()
                  .comm_state_option()
                  .zero_gradient_guard());
}

TEST(DifferenceTest, ShowsTheHookThatToKwargsLeavesOut) {
  ExpectDifference("ddp_kwargs: {comm_hook: power_sgd, comm_wrapper: 'no', comm_state_option: {}}",
                   "ddp_kwargs: {comm_hook: power_sgd}");
  ExpectDifference("ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {random_seed: 0}}",
                   "ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {random_seed: 0}}");
}

TEST(DifferenceTest, KeepsExplicitValuesThatUpstreamLoses) {
  ExpectDifference("init_process_group_kwargs: {timeout: 600}",
                   "init_process_group_kwargs: {timeout: 600}");
  ExpectDifference("init_process_group_kwargs: {backend: gloo, timeout: 600}",
                   "init_process_group_kwargs: {backend: gloo, timeout: 600}");
  ExpectDifference(
      "{mixed_precision: fp8, te_recipe_kwargs: {amax_compute_algo: most_recent, "
      "fp8_format: hybrid, margin: 0}}",
      "{mixed_precision: fp8, te_recipe_kwargs: {amax_compute_algo: most_recent, "
      "fp8_format: HYBRID}}");
}

TEST(DifferenceTest, HoldsTheTimeoutThatAccelerateWritesIntoTheHandler) {
  ExpectDifference("init_process_group_kwargs: {backend: gloo}",
                   "init_process_group_kwargs: {backend: gloo, timeout: 1800}");
  ExpectDifference("init_process_group_kwargs: {backend: nccl}", "init_process_group_kwargs: {}",
                   "cuda");
}

TEST(DifferenceTest, ComparesWithWhatADefaultInstanceHolds) {
  ExpectDifference("gradient_accumulation_plugin: {num_steps: 1}",
                   "gradient_accumulation_plugin: {num_steps: 1}");
  ExpectDifference("project_config: {automatic_checkpoint_naming: true, iteration: 0}",
                   "project_config: {automatic_checkpoint_naming: true}");
  ExpectDifference("dataloader_config: {dispatch_batches: false, use_stateful_dataloader: false}",
                   "dataloader_config: {dispatch_batches: false}");
}

constexpr const char* kConfigurations[] = {
    "",
    "autocast_kwargs: {enabled: false}",
    "{mixed_precision: fp16, emulate_fp16: true, scaler_kwargs: {growth_interval: 7}}",
    "ddp_kwargs: {comm_hook: power_sgd, comm_state_option: {matrix_approximation_rank: 4}}",
    "ddp_kwargs: {bucket_cap_mb: 7, find_unused_parameters: true}",
    "init_process_group_kwargs: {timeout: 600}",
    "init_process_group_kwargs: {backend: gloo}",
    "profile_kwargs: {}",
    "profile_kwargs: {with_flops: true, schedule_option: {wait: 1, warmup: 1, active: 2}}",
    "{mixed_precision: fp8, te_recipe_kwargs: {fp8_format: hybrid}}",
    "{mixed_precision: fp8, te_recipe_kwargs: {use_mxfp8_block_scaling: true}}",
    "{mixed_precision: fp8, ao_recipe_kwargs: {}}",
    "{mixed_precision: fp8, ao_recipe_kwargs: {pad_inner_dim: false}}",
    "{mixed_precision: fp8, ao_recipe_kwargs: {config: {emulate: true}}}",
    "{mixed_precision: fp8, fp8_recipe_kwargs: {margin: 2}}",
    "{mixed_precision: fp8, fp8_recipe_kwargs: {backend: MSAMP}}",
    "dataloader_config: {even_batches: false, data_seed: 9}",
    "project_config: {total_limit: 3}",
};

TEST(DifferenceTest, ResolvesToTheSameConfiguration) {
  for (const char* text : kConfigurations) {
    const ResolvedAccelerator first = Resolve(text);
    const auto again = ResolveAccelerator(first.difference, "cpu");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(MessageDifferencer::Equals(first.resolved, again->resolved)) << text;
  }
}

TEST(ResolveTest, ResolvingTwiceChangesNothing) {
  for (const char* text : kConfigurations) {
    const ResolvedAccelerator first = Resolve(text);
    const auto again = ResolveAccelerator(first.resolved, "cpu");
    ASSERT_TRUE(again.ok()) << text << "\n" << again.status();
    EXPECT_TRUE(MessageDifferencer::Equals(first.resolved, again->resolved)) << text;
    EXPECT_EQ(first.warnings, again->warnings) << text;
  }
}

TEST(ResolveTest, RefusesWhatIsInvalidWithItsPath) {
  const auto result = ResolveAccelerator(Parse<AcceleratorConfig>("ddp_kwargs: {dim: -1}"), "cpu",
                                         "spec.accelerator");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ViolationsOf(result.status()).count("spec.accelerator.ddp_kwargs.dim"), 1u);
  EXPECT_EQ(ViolationsOf(ResolveAccelerator(AcceleratorConfig(), "tpu").status()).at("device"),
            "\"tpu\" is not allowed; allowed: cpu, cuda");
}

struct Warning {
  const char* text;
  const char* path;
};

void PrintTo(const Warning& warning, std::ostream* out) { *out << warning.text; }

class WarnedOf : public testing::TestWithParam<Warning> {};

TEST_P(WarnedOf, NamesPathAndReason) {
  EXPECT_THAT(
      Resolve(GetParam().text).warnings,
      ElementsAre(testing::StartsWith(absl::StrCat("accelerator.", GetParam().path, ": "))));
}

INSTANTIATE_TEST_SUITE_P(
    Options, WarnedOf,
    testing::Values(
        Warning{"ddp_kwargs: {dim: 1}", "ddp_kwargs.dim"},
        Warning{"ddp_kwargs: {check_reduction: true}", "ddp_kwargs.check_reduction"},
        Warning{"ddp_kwargs: {static_graph: true, find_unused_parameters: true}",
                "ddp_kwargs.find_unused_parameters"},
        Warning{"ddp_kwargs: {comm_hook: batched_power_sgd, "
                "comm_state_option: {min_compression_rate: 4}}",
                "ddp_kwargs.comm_state_option.min_compression_rate"},
        Warning{"autocast_kwargs: {cache_enabled: true}", "autocast_kwargs"},
        Warning{"scaler_kwargs: {init_scale: 8}", "scaler_kwargs"},
        Warning{"gradient_accumulation_plugin: {sync_with_dataloader: false}",
                "gradient_accumulation_plugin.sync_with_dataloader"},
        Warning{"gradient_accumulation_plugin: {num_steps: 1, sync_each_batch: true}",
                "gradient_accumulation_plugin.sync_each_batch"},
        Warning{"dataloader_config: {non_blocking: true}", "dataloader_config.non_blocking"},
        Warning{"dataloader_config: {use_stateful_dataloader: false}",
                "dataloader_config.use_stateful_dataloader"},
        Warning{"{mixed_precision: fp8, ao_recipe_kwargs: {config: "
                "{enable_fsdp_float8_all_gather: true}}}",
                "ao_recipe_kwargs.config.enable_fsdp_float8_all_gather"},
        Warning{"{mixed_precision: fp8, ao_recipe_kwargs: {config: "
                "{force_recompute_fp8_weight_in_bwd: true}}}",
                "ao_recipe_kwargs.config.force_recompute_fp8_weight_in_bwd"},
        Warning{"{mixed_precision: fp8, ao_recipe_kwargs: {config: "
                "{gemm_config_grad_input: {use_fast_accum: true}}}}",
                "ao_recipe_kwargs.config.gemm_config_grad_input.use_fast_accum"},
        Warning{"{mixed_precision: fp8, fp8_recipe_kwargs: {opt_level: O1}}",
                "fp8_recipe_kwargs.opt_level"},
        Warning{"{mixed_precision: fp8, fp8_recipe_kwargs: {backend: MSAMP, margin: 1}}",
                "fp8_recipe_kwargs"}));

TEST(WarningsTest, DefaultsAreNotReported) {
  for (const char* text :
       {"ddp_kwargs: {dim: 0, check_reduction: false}", "autocast_kwargs: {enabled: true}",
        "scaler_kwargs: {init_scale: 65536}",
        "gradient_accumulation_plugin: {num_steps: 2, sync_with_dataloader: false, "
        "sync_each_batch: true}",
        "dataloader_config: {non_blocking: false}"}) {
    EXPECT_THAT(Resolve(text).warnings, IsEmpty()) << text;
  }
  EXPECT_THAT(Resolve("dataloader_config: {non_blocking: true}", "cuda").warnings, IsEmpty());
}

}  // namespace
}  // namespace accel::config
