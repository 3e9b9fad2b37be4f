#include "core/config/field_rules.h"

#include <limits>

namespace accel::config {
namespace {

using Kind = FieldRule::Kind;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

FieldRule Required(absl::string_view field) { return {field, Kind::kRequired}; }

FieldRule AtLeast(double min, absl::string_view field) {
  return {field, Kind::kRange, min, kInfinity};
}

FieldRule Above(double min, absl::string_view field) {
  return {field, Kind::kRange, min, kInfinity, true};
}

FieldRule Between(double min, double max, absl::string_view field) {
  return {field, Kind::kRange, min, max};
}

// min <= value < max.
FieldRule FromBelow(double min, double max, absl::string_view field) {
  return {field, Kind::kRange, min, max, false, true};
}

// min < value < max.
FieldRule Inside(double min, double max, absl::string_view field) {
  return {field, Kind::kRange, min, max, true, true};
}

FieldRule Names(std::vector<absl::string_view> names, absl::string_view field) {
  FieldRule rule{field, Kind::kNames};
  rule.names = std::move(names);
  return rule;
}

FieldRule NamesInAnyCase(std::vector<absl::string_view> names, absl::string_view field) {
  FieldRule rule = Names(std::move(names), field);
  rule.any_case = true;
  return rule;
}

FieldRule Count(double min, double max, absl::string_view field) {
  return {field, Kind::kCount, min, max};
}

FieldRule MaxBytes(double max, absl::string_view field) { return {field, Kind::kMaxBytes, 0, max}; }

constexpr double kMaxWidth = 16777216;

}  // namespace

const std::vector<FieldRule>& FieldRules() {
  static const auto* const rules = new std::vector<FieldRule>{
      // kwargs.proto
      Names({"no", "fp16", "bf16", "fp8"}, "AcceleratorConfig.mixed_precision"),
      AtLeast(0, "DistributedDataParallelKwargs.dim"),
      AtLeast(1, "DistributedDataParallelKwargs.bucket_cap_mb"),
      Names({"no", "fp16", "bf16", "power_sgd", "batched_power_sgd"},
            "DistributedDataParallelKwargs.comm_hook"),
      Names({"no", "fp16", "bf16"}, "DistributedDataParallelKwargs.comm_wrapper"),
      AtLeast(1, "PowerSGDStateOptions.matrix_approximation_rank"),
      AtLeast(0, "PowerSGDStateOptions.start_powerSGD_iter"),
      Above(0, "PowerSGDStateOptions.min_compression_rate"),
      AtLeast(0, "PowerSGDStateOptions.orthogonalization_epsilon"),
      AtLeast(1, "PowerSGDStateOptions.compression_stats_logging_frequency"),
      Between(std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
              "GradScalerKwargs.init_scale"),
      Above(1, "GradScalerKwargs.growth_factor"),
      Inside(0, 1, "GradScalerKwargs.backoff_factor"),
      AtLeast(1, "GradScalerKwargs.growth_interval"),
      Names({"cpu", "cuda", "xpu", "mtia", "hpu"}, "ProfileKwargs.activities"),
      Required("ProfileScheduleOption.wait"),
      AtLeast(0, "ProfileScheduleOption.wait"),
      Required("ProfileScheduleOption.warmup"),
      AtLeast(0, "ProfileScheduleOption.warmup"),
      Required("ProfileScheduleOption.active"),
      AtLeast(1, "ProfileScheduleOption.active"),
      AtLeast(0, "ProfileScheduleOption.repeat"),
      AtLeast(0, "ProfileScheduleOption.skip_first"),
      AtLeast(0, "ProfileScheduleOption.skip_first_wait"),
      AtLeast(0, "TERecipeKwargs.margin"),
      AtLeast(1, "TERecipeKwargs.interval"),
      NamesInAnyCase({"HYBRID", "E4M3", "E5M2"}, "TERecipeKwargs.fp8_format"),
      AtLeast(1, "TERecipeKwargs.amax_history_len"),
      NamesInAnyCase({"most_recent", "max"}, "TERecipeKwargs.amax_compute_algo"),
      Count(3, 3, "TERecipeKwargs.override_linear_precision"),
      Names({"dynamic", "disabled"}, "Float8LinearConfig.CastConfig.scaling_type"),
      Names({"tensorwise", "axiswise"}, "Float8LinearConfig.CastConfig.scaling_granularity"),
      Names({"e4m3", "e5m2"}, "Float8LinearConfig.CastConfig.target_dtype"),
      Names({"O1", "O2"}, "MSAMPRecipeKwargs.opt_level"),
      NamesInAnyCase({"TE", "MSAMP"}, "FP8RecipeKwargs.backend"),
      AtLeast(0, "FP8RecipeKwargs.margin"),
      AtLeast(1, "FP8RecipeKwargs.interval"),
      NamesInAnyCase({"HYBRID", "E4M3", "E5M2"}, "FP8RecipeKwargs.fp8_format"),
      AtLeast(1, "FP8RecipeKwargs.amax_history_len"),
      NamesInAnyCase({"most_recent", "max"}, "FP8RecipeKwargs.amax_compute_algo"),
      Count(3, 3, "FP8RecipeKwargs.override_linear_precision"),
      Names({"O1", "O2"}, "FP8RecipeKwargs.opt_level"),
      AtLeast(1, "GradientAccumulationPlugin.num_steps"),
      AtLeast(0, "DataLoaderConfiguration.data_seed"),
      AtLeast(1, "ProjectConfiguration.total_limit"),
      AtLeast(0, "ProjectConfiguration.iteration"),

      // job.proto
      MaxBytes(256, "JobSpec.display_name"),
      Count(0, 64, "JobSpec.labels"),
      Names({"cpu", "cuda"}, "JobSpec.device"),
      Required("JobSpec.model"),
      Required("JobSpec.data"),
      Required("JobSpec.loss"),
      Required("JobSpec.optimizer"),
      Required("JobSpec.loop"),
      AtLeast(67108864, "JobSpec.memory_limit_bytes"),
      Between(1, 1024, "MultiNodeSpec.num_machines"),
      AtLeast(0, "MultiNodeSpec.machine_rank"),
      Between(1, 65535, "MultiNodeSpec.main_process_port"),

      // model.proto
      Required("ModelSpec.model"),
      Required("Mlp.layer_sizes"),
      Count(2, 64, "Mlp.layer_sizes"),
      Between(1, kMaxWidth, "Mlp.layer_sizes"),
      Names({"relu", "gelu", "tanh"}, "Mlp.activation"),
      FromBelow(0, 1, "Mlp.dropout"),
      Between(1, 4096, "ConvNet.in_channels"),
      Required("ConvNet.height"),
      Between(1, 65536, "ConvNet.height"),
      Required("ConvNet.width"),
      Between(1, 65536, "ConvNet.width"),
      Required("ConvNet.channels"),
      Count(1, 32, "ConvNet.channels"),
      Between(1, 65536, "ConvNet.channels"),
      Required("ConvNet.num_classes"),
      Between(1, kMaxWidth, "ConvNet.num_classes"),
      FromBelow(0, 1, "ConvNet.dropout"),
      Between(1, kMaxWidth, "Gpt.vocab_size"),
      Between(1, 1048576, "Gpt.context_length"),
      Required("Gpt.num_layers"),
      Between(1, 1024, "Gpt.num_layers"),
      Required("Gpt.num_heads"),
      AtLeast(1, "Gpt.num_heads"),
      Required("Gpt.embedding_size"),
      Between(1, 1048576, "Gpt.embedding_size"),
      FromBelow(0, 1, "Gpt.dropout"),

      // data.proto
      Required("Dataset.file"),
      Required("Dataset.format"),
      Count(0, 8, "Dataset.feature_shape"),
      Between(1, kMaxWidth, "Dataset.feature_shape"),
      Required("IdxFormat.target_file"),
      Required("BytesFormat.sequence_length"),
      Between(1, 1048576, "BytesFormat.sequence_length"),
      AtLeast(1, "BytesFormat.stride"),
      Above(0, "Normalization.std"),
      Required("DataSpec.train"),
      Required("DataSpec.batch_size"),
      Between(1, 1048576, "DataSpec.batch_size"),
      Between(1, 1048576, "DataSpec.evaluation_batch_size"),
      Between(0, 64, "DataSpec.num_workers"),
      Between(1, 1024, "DataSpec.prefetch_factor"),
      Between(2, kMaxWidth, "Streaming.shuffle_buffer"),
      Required("Split.evaluation_fraction"),
      Inside(0, 1, "Split.evaluation_fraction"),
      AtLeast(0, "Split.seed"),

      // optimizer.proto
      Required("OptimizerSpec.optimizer"),
      AtLeast(0, "Sgd.lr"),
      AtLeast(0, "Sgd.momentum"),
      AtLeast(0, "Sgd.weight_decay"),
      AtLeast(0, "Adam.lr"),
      FromBelow(0, 1, "Adam.beta1"),
      FromBelow(0, 1, "Adam.beta2"),
      Above(0, "Adam.eps"),
      AtLeast(0, "Adam.weight_decay"),
      AtLeast(0, "AdamW.lr"),
      FromBelow(0, 1, "AdamW.beta1"),
      FromBelow(0, 1, "AdamW.beta2"),
      Above(0, "AdamW.eps"),
      AtLeast(0, "AdamW.weight_decay"),
      AtLeast(0, "Adagrad.lr"),
      AtLeast(0, "Adagrad.lr_decay"),
      AtLeast(0, "Adagrad.weight_decay"),
      AtLeast(0, "Adagrad.initial_accumulator_value"),
      Above(0, "Adagrad.eps"),
      AtLeast(0, "RmsProp.lr"),
      FromBelow(0, 1, "RmsProp.alpha"),
      Above(0, "RmsProp.eps"),
      AtLeast(0, "RmsProp.weight_decay"),
      AtLeast(0, "RmsProp.momentum"),
      AtLeast(0, "Lbfgs.lr"),
      Between(1, 100000, "Lbfgs.max_iter"),
      Between(1, 1000000, "Lbfgs.max_eval"),
      AtLeast(0, "Lbfgs.tolerance_grad"),
      AtLeast(0, "Lbfgs.tolerance_change"),
      Between(1, 10000, "Lbfgs.history_size"),
      Names({"strong_wolfe"}, "Lbfgs.line_search_fn"),
      Count(0, 64, "NoDecay.name_contains"),
      MaxBytes(256, "NoDecay.name_contains"),

      // schedule.proto
      AtLeast(0, "ConstantSchedule.warmup_steps"),
      AtLeast(0, "LinearSchedule.warmup_steps"),
      AtLeast(1, "LinearSchedule.total_steps"),
      AtLeast(0, "CosineSchedule.warmup_steps"),
      AtLeast(1, "CosineSchedule.total_steps"),
      Above(0, "CosineSchedule.num_cycles"),
      AtLeast(0, "CosineWithRestartsSchedule.warmup_steps"),
      AtLeast(1, "CosineWithRestartsSchedule.total_steps"),
      AtLeast(1, "CosineWithRestartsSchedule.num_cycles"),
      AtLeast(0, "PolynomialSchedule.warmup_steps"),
      AtLeast(1, "PolynomialSchedule.total_steps"),
      AtLeast(0, "PolynomialSchedule.lr_end"),
      Above(0, "PolynomialSchedule.power"),
      AtLeast(0, "InverseSqrtSchedule.warmup_steps"),
      AtLeast(1, "InverseSqrtSchedule.timescale"),
      Required("StepSchedule.step_size"),
      AtLeast(1, "StepSchedule.step_size"),
      Above(0, "StepSchedule.gamma"),
      Required("MultiStepSchedule.milestones"),
      AtLeast(1, "MultiStepSchedule.milestones"),
      Above(0, "MultiStepSchedule.gamma"),
      Required("ExponentialSchedule.gamma"),
      Above(0, "ExponentialSchedule.gamma"),
      AtLeast(0, "OneCycleSchedule.max_lr"),
      AtLeast(2, "OneCycleSchedule.total_steps"),
      Inside(0, 1, "OneCycleSchedule.pct_start"),
      Names({"cos", "linear"}, "OneCycleSchedule.anneal_strategy"),
      Above(0, "OneCycleSchedule.div_factor"),
      Above(0, "OneCycleSchedule.final_div_factor"),
      FromBelow(0, 1, "OneCycleSchedule.base_momentum"),
      FromBelow(0, 1, "OneCycleSchedule.max_momentum"),
      Names({"train/loss", "eval/loss", "eval/accuracy", "eval/perplexity"},
            "ReduceOnPlateauSchedule.metric"),
      Names({"min", "max"}, "ReduceOnPlateauSchedule.mode"),
      Inside(0, 1, "ReduceOnPlateauSchedule.factor"),
      AtLeast(0, "ReduceOnPlateauSchedule.patience"),
      AtLeast(0, "ReduceOnPlateauSchedule.threshold"),
      Names({"rel", "abs"}, "ReduceOnPlateauSchedule.threshold_mode"),
      AtLeast(0, "ReduceOnPlateauSchedule.cooldown"),
      AtLeast(0, "ReduceOnPlateauSchedule.min_lr"),
      AtLeast(0, "ReduceOnPlateauSchedule.eps"),

      // training.proto
      Required("LossSpec.loss"),
      Names({"num_steps", "micro_batches", "items"}, "LossSpec.averaging"),
      Between(0, 1, "CrossEntropyLoss.label_smoothing"),
      Between(1, 1000000, "LoopSpec.num_epochs"),
      AtLeast(1, "LoopSpec.max_steps"),
      AtLeast(0, "LoopSpec.seed"),
      AtLeast(1, "LoopSpec.evaluate_every_epochs"),
      AtLeast(1, "LoopSpec.checkpoint_every_steps"),
      AtLeast(1, "LoopSpec.log_every_steps"),
      Between(1, 1024, "LoopSpec.num_cpu_threads_per_process"),
      Count(0, 16, "LoopSpec.early_stopping"),
      Names({"continue", "stop", "fail"}, "LoopSpec.on_nonfinite_loss"),
      AtLeast(1, "LoopSpec.local_sgd_steps"),
      Required("EarlyStopping.metric"),
      Names({"train/loss", "eval/loss", "eval/accuracy", "eval/perplexity"},
            "EarlyStopping.metric"),
      Names({"min", "max"}, "EarlyStopping.mode"),
      AtLeast(1, "EarlyStopping.patience"),
      AtLeast(0, "EarlyStopping.min_delta"),
      Inside(0, 1, "FindExecutableBatchSize.reduce_factor"),
      Above(0, "ClippingSpec.max_norm"),
      Above(0, "ClippingSpec.max_value"),

      // tracker.proto
      MaxBytes(128, "TrackingSpec.project"),
      Count(0, 16, "TrackingSpec.trackers"),
      Count(0, 16, "TrackingSpec.log_with"),
      Required("TrackerSpec.tracker"),
      MaxBytes(128, "TensorBoardTracker.filename_suffix"),
      Between(0, 3600, "TensorBoardTracker.flush_secs"),
      Names({"online", "offline", "disabled"}, "WandBTracker.mode"),
      Names({"sqlite", "inbox"}, "TrackioTracker.storage"),
      Names({"create", "get", "get_or_create"}, "CometMLTracker.start_mode"),
      Names({"cloud", "online", "offline", "disabled"}, "SwanLabTracker.mode"),
      MaxBytes(25, "SwanLabTracker.workspace"),
      MaxBytes(512, "SwanLabTracker.experiment_name"),
      MaxBytes(1024, "SwanLabTracker.description"),
      Count(0, 30, "SwanLabTracker.tags"),
      MaxBytes(128, "DVCLiveTracker.dir"),
      Required("CustomTracker.name"),
  };
  return *rules;
}

}  // namespace accel::config
