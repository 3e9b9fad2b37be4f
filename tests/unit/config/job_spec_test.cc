#include "core/config/job_spec.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

namespace fs = std::filesystem;

using accel::v1::JobSpec;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr char kJob[] = R"yaml(
num_processes: 2
model: {mlp: {layer_sizes: [4, 8, 3]}}
data:
  train: {file: data/train.csv, csv: {}}
  batch_size: 8
loss: {cross_entropy: {}}
optimizer: {adamw: {}}
loop: {num_epochs: 1}
)yaml";

constexpr char kGptJob[] = R"yaml(
model: {gpt: {num_layers: 2, num_heads: 4, embedding_size: 64}}
data:
  train: {file: data/text.txt, bytes: {sequence_length: 32}}
  batch_size: 8
loss: {next_token: {}}
optimizer: {adamw: {}}
loop: {max_steps: 10}
)yaml";

// Laid over a good job: lists are replaced, messages merged, members of a oneof exchanged.
JobSpec With(absl::string_view base, absl::string_view changes) {
  JobSpec spec = Parse<JobSpec>(base);
  const JobSpec change = Parse<JobSpec>(changes);
  if (change.model().mlp().layer_sizes_size() > 0) {
    spec.mutable_model()->mutable_mlp()->clear_layer_sizes();
  }
  spec.MergeFrom(change);
  return spec;
}

class JobSpecTest : public testing::Test {
 protected:
  JobSpecTest() {
    std::string pattern = (fs::temp_directory_path() / "accel_job_spec_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    root_ = folder_ / "root";
    fs::create_directories(root_ / "sub");
    for (const fs::path& path : {root_ / "train.csv", root_ / "sub" / "labels.idx",
                                 root_ / "text.txt", folder_ / "outside.csv"}) {
      std::ofstream(path) << "1,2,3,4,0\n";
    }
    fs::create_symlink("../outside.csv", root_ / "leaving.csv");
    fs::create_symlink("sub/labels.idx", root_ / "staying.csv");
    mkfifo((root_ / "fifo").c_str(), 0600);
    limits_.max_world_size = 4;
    limits_.data_roots = {{"data", root_}, {"more", root_ / "sub"}};
  }
  ~JobSpecTest() override { fs::remove_all(folder_); }

  absl::Status Validate(const JobSpec& spec) const {
    FieldViolations violations;
    ValidateJobSpec(spec, limits_, &violations);
    return violations.ToStatus();
  }

  fs::path folder_;
  fs::path root_;
  NodeLimits limits_;
};

TEST_F(JobSpecTest, AcceptsGoodJobs) {
  EXPECT_TRUE(Validate(Parse<JobSpec>(kJob)).ok()) << Validate(Parse<JobSpec>(kJob));
  EXPECT_TRUE(Validate(Parse<JobSpec>(kGptJob)).ok()) << Validate(Parse<JobSpec>(kGptJob));
  for (const char* change : {
           "display_name: x",
           "labels: {team/a.b-c_D: ''}",
           "num_processes: 4",
           "data: {train: {file: data/staying.csv}}",
           "data: {train: {file: more/labels.idx}}",
           "data: {train: {csv: {delimiter: ';', target_column: 0, header: true}}}",
           "data: {train: {feature_shape: [2, 2], normalization: {scale: 0.5, std: 2}}}",
           "data: {train: {idx: {target_file: data/sub/labels.idx}}}",
           "data: {train: {npy: {target_file: more/labels.idx}}}",
           "data: {train: {safetensors: {}}}",
           "data: {split: {evaluation_fraction: 0.1}, evaluation_batch_size: 3}",
           "data: {evaluation: {file: data/train.csv, csv: {}}}",
           "{loss: {mse: {}}, model: {mlp: {layer_sizes: [4, 1]}}}",
           "model: {convnet: {height: 8, width: 8, channels: [4, 4, 4], num_classes: 2}}",
           "optimizer: {sgd: {momentum: 0.9, nesterov: true}}",
           "optimizer: {adam: {beta1: 0, decoupled_weight_decay: true}}",
           "optimizer: {lbfgs: {max_iter: 4, max_eval: 1, line_search_fn: strong_wolfe}}",
           "{optimizer: {lbfgs: {}}, accelerator: {mixed_precision: fp16, emulate_fp16: true, "
           "scaler_kwargs: {enabled: false}}}",
           "optimizer: {adagrad: {lr_decay: 0, initial_accumulator_value: 0.5, maximize: true}}",
           "optimizer: {rmsprop: {alpha: 0, centered: true, momentum: 0.5}}",
           "optimizer: {adamw: {}, no_decay: {biases: true, norms: true}}",
           "optimizer: {rmsprop: {weight_decay: 0.1}, no_decay: {name_contains: [bias]}}",
           "schedule: {}",
           "loss: {cross_entropy: {ignore_index: 2}, averaging: items}",
           "{loss: {averaging: micro_batches}, accelerator: {gradient_accumulation_plugin: "
           "{num_steps: 2}}}",
           "loop: {early_stopping: [{metric: train/loss, patience: 3, min_delta: 0.1}], "
           "on_nonfinite_loss: stop, log_grad_norm: true}",
           "{loop: {early_stopping: [{metric: eval/accuracy, threshold: 0.9, mode: max}]}, "
           "data: {split: {evaluation_fraction: 0.5}}}",
           "loop: {local_sgd_steps: 4}",
           "schedule: {linear: {warmup_steps: 5, total_steps: 6}}",
           "schedule: {cosine: {warmup_steps: 5, num_cycles: 2.5}}",
           "schedule: {constant: {warmup_steps: 5}}",
           "schedule: {cosine_with_restarts: {warmup_steps: 5, total_steps: 6, num_cycles: 3}}",
           "schedule: {polynomial: {lr_end: 0, power: 0.5}}",
           "schedule: {inverse_sqrt: {timescale: 1}}",
           "schedule: {step: {step_size: 1, gamma: 1.5}}",
           "schedule: {multi_step: {milestones: [1, 2]}}",
           "schedule: {exponential: {gamma: 0.5}}",
           "schedule: {one_cycle: {pct_start: 0.5, three_phase: true, anneal_strategy: linear}}",
           "schedule: {one_cycle: {base_momentum: 0, max_momentum: 0}}",
           "{optimizer: {adagrad: {}}, schedule: {one_cycle: {cycle_momentum: false}}}",
           "schedule: {reduce_on_plateau: {metric: train/loss, patience: 0, threshold_mode: abs}}",
           "{schedule: {reduce_on_plateau: {metric: eval/accuracy, min_lr: 0, eps: 0}}, "
           "data: {split: {evaluation_fraction: 0.1}}}",
           "loop: {max_steps: 1, clipping: {max_norm: 1}, checkpoint_every_steps: 1}",
           "loop: {clipping: {}}",
           "tracking: {project: p.1, trackers: [{tensorboard: {flush_secs: 0}}], config: {a: b}}",
           "resume_from: jobs/a-1/checkpoints/12",
       }) {
    const absl::Status status = Validate(With(kJob, change));
    EXPECT_TRUE(status.ok()) << change << "\n" << status;
  }
}

TEST_F(JobSpecTest, ReportsEveryMissingPart) {
  const auto found = ViolationsOf(Validate(JobSpec()));
  EXPECT_THAT(found, ElementsAre(Pair("data", "required"), Pair("loop", "required"),
                                 Pair("loss", "required"), Pair("model", "required"),
                                 Pair("optimizer", "required")));
}

class RefusedJob : public JobSpecTest, public testing::WithParamInterface<Refusal> {};

TEST_P(RefusedJob, NamesPathAndWhatIsAllowed) {
  EXPECT_THAT(ViolationsOf(Validate(With(kJob, GetParam().text))),
              ElementsAre(Pair(GetParam().path, HasSubstr(GetParam().description))));
}

INSTANTIATE_TEST_SUITE_P(
    Job, RefusedJob,
    testing::Values(
        Refusal{"num_processes: 0", "num_processes",
                "0 is not allowed; allowed: 1 to 4, this node's limit"},
        Refusal{"num_processes: 5", "num_processes", "5 is not allowed; allowed: 1 to 4"},
        Refusal{"num_processes: -1", "num_processes", "-1 is not allowed"},
        Refusal{"device: cuda", "device", "this node has no CUDA device"},
        Refusal{"device: tpu", "device", "\"tpu\" is not allowed; allowed: cpu, cuda"},
        Refusal{"labels: {'a b': x}", "labels[\"a b\"]", "1 to 63 letters"},
        Refusal{"labels: {'': x}", "labels[\"\"]", "1 to 63 letters"},
        Refusal{"accelerator: {ddp_kwargs: {bucket_cap_mb: 0}}",
                "accelerator.ddp_kwargs.bucket_cap_mb", "0 is not allowed; allowed: at least 1"},
        Refusal{"accelerator: {init_process_group_kwargs: {backend: nccl}}",
                "accelerator.init_process_group_kwargs.backend", "CPU device"},
        Refusal{"{num_processes: 3, accelerator: {dataloader_config: {split_batches: true}}}",
                "data.batch_size", "8 is not allowed; allowed: multiples of the 3 ranks"},
        Refusal{"{data: {evaluation_batch_size: 7, split: {evaluation_fraction: 0.5}}, "
                "accelerator: {dataloader_config: {split_batches: true}}}",
                "data.evaluation_batch_size", "multiples of the 2 ranks"},
        Refusal{"resume_from: a", "resume_from", "jobs/{job}/checkpoints/{checkpoint}"},
        Refusal{"resume_from: jobs/A/checkpoints/1", "resume_from", "jobs/{job}"},
        Refusal{"resume_from: jobs/a/checkpoints/..", "resume_from", "jobs/{job}"},
        Refusal{"resume_from: jobs/a/checkpoints/", "resume_from", "jobs/{job}"},
        Refusal{"resume_from: jobs/a/checkpoints/1/2", "resume_from", "jobs/{job}"}));

INSTANTIATE_TEST_SUITE_P(
    Model, RefusedJob,
    testing::Values(
        Refusal{"model: {mlp: {layer_sizes: [4]}}", "model.mlp.layer_sizes",
                "1 values is not allowed; allowed: 2 to 64"},
        Refusal{"model: {mlp: {layer_sizes: [4, 0, 3]}}", "model.mlp.layer_sizes[1]",
                "1 to 16777216"},
        Refusal{"model: {mlp: {activation: swish}}", "model.mlp.activation",
                "allowed: relu, gelu, tanh"},
        Refusal{"model: {mlp: {dropout: 1}}", "model.mlp.dropout", "0 and below 1"},
        Refusal{"model: {convnet: {width: 4, channels: [1], num_classes: 2}}",
                "model.convnet.height", "required"},
        Refusal{"model: {convnet: {height: 4, width: 4, num_classes: 2}}", "model.convnet.channels",
                "required"},
        Refusal{"model: {convnet: {height: 3, width: 4, channels: [1, 1], num_classes: 2}}",
                "model.convnet.height", "3 is not allowed; allowed: at least 2 to the power of 2"},
        Refusal{"model: {convnet: {height: 4, width: 4, channels: [1], num_classes: 0}}",
                "model.convnet.num_classes", "1 to 16777216"},
        Refusal{"data: {train: {feature_shape: [5]}}", "data.train.feature_shape",
                "5 features is not allowed; allowed: 4, the model's input"},
        Refusal{"loss: {next_token: {}}", "loss", "next_token needs the gpt model"},
        Refusal{"loss: {mse: {}}", "model.mlp.layer_sizes[2]", "3 is not allowed; allowed: 1"},
        Refusal{"loss: {cross_entropy: {label_smoothing: 1.5}}",
                "loss.cross_entropy.label_smoothing", "0 to 1"}));

INSTANTIATE_TEST_SUITE_P(
    Data, RefusedJob,
    testing::Values(
        Refusal{"data: {train: {file: other/a.csv}}", "data.train.file",
                "unknown root \"other\"; this node's roots: data, more"},
        Refusal{"data: {train: {file: data/none.csv}}", "data.train.file", "none.csv"},
        Refusal{"data: {train: {file: data/leaving.csv}}", "data.train.file", "leaves its root"},
        Refusal{"data: {train: {file: data/../outside.csv}}", "data.train.file",
                "has a \"..\" part"},
        Refusal{"data: {train: {file: /etc/passwd}}", "data.train.file", "absolute path"},
        Refusal{"data: {train: {file: train.csv}}", "data.train.file", "<root>/<path>"},
        Refusal{"data: {train: {file: data/sub}}", "data.train.file", "no regular file"},
        Refusal{"data: {train: {file: data/fifo}}", "data.train.file", "no regular file"},
        Refusal{"data: {train: {file: ''}}", "data.train.file", "<root>/<path>"},
        Refusal{"data: {train: {idx: {}}}", "data.train.idx.target_file", "required"},
        Refusal{"data: {train: {idx: {target_file: data/x}}}", "data.train.idx.target_file", "x"},
        Refusal{"data: {train: {npy: {target_file: data/x}}}", "data.train.npy.target_file", "x"},
        Refusal{"data: {train: {csv: {delimiter: ',,'}}}", "data.train.csv.delimiter",
                "one ASCII character"},
        Refusal{"data: {train: {csv: {delimiter: '.'}}}", "data.train.csv.delimiter",
                "no part of a number"},
        Refusal{"data: {train: {csv: {delimiter: 'e'}}}", "data.train.csv.delimiter",
                "no part of a number"},
        Refusal{"data: {train: {csv: {delimiter: ''}}}", "data.train.csv.delimiter",
                "one ASCII character"},
        Refusal{"data: {train: {normalization: {scale: 0}}}", "data.train.normalization.scale",
                "0 is not allowed"},
        Refusal{"data: {train: {normalization: {std: 0}}}", "data.train.normalization.std",
                "above 0"},
        Refusal{"data: {train: {normalization: {mean: .inf}}}", "data.train.normalization.mean",
                "finite"},
        Refusal{"data: {evaluation: {file: data/train.csv, csv: {}}, "
                "split: {evaluation_fraction: 0.5}}",
                "data.split", "not allowed with evaluation"},
        Refusal{"data: {evaluation: {csv: {}}}", "data.evaluation.file", "required"},
        Refusal{"data: {evaluation: {file: data/train.csv}}", "data.evaluation",
                "exactly one of csv, npy, safetensors, idx, bytes"},
        Refusal{"data: {split: {}}", "data.split.evaluation_fraction", "required"},
        Refusal{"data: {split: {evaluation_fraction: 1}}", "data.split.evaluation_fraction",
                "above 0 and below 1"},
        Refusal{"data: {split: {evaluation_fraction: 0.5, seed: -1}}", "data.split.seed",
                "at least 0"},
        Refusal{"data: {batch_size: 0}", "data.batch_size", "1 to 1048576"},
        Refusal{"data: {evaluation_batch_size: 4}", "data.evaluation_batch_size",
                "no held-out data"},
        Refusal{"data: {train: {bytes: {sequence_length: 8}}}", "data.train",
                "needs the gpt model"}));

INSTANTIATE_TEST_SUITE_P(
    Training, RefusedJob,
    testing::Values(
        Refusal{"optimizer: {sgd: {lr: -1}}", "optimizer.sgd.lr", "at least 0"},
        Refusal{"optimizer: {sgd: {lr: .inf}}", "optimizer.sgd.lr", "finite"},
        Refusal{"optimizer: {sgd: {nesterov: true}}", "optimizer.sgd.nesterov", "momentum above 0"},
        Refusal{"optimizer: {sgd: {nesterov: true, momentum: 0.9, dampening: 0.1}}",
                "optimizer.sgd.dampening", "0 with nesterov"},
        Refusal{"optimizer: {adam: {beta2: 1}}", "optimizer.adam.beta2", "0 and below 1"},
        Refusal{"optimizer: {adam: {eps: 0}}", "optimizer.adam.eps", "above 0"},
        Refusal{"optimizer: {adamw: {weight_decay: -0.5}}", "optimizer.adamw.weight_decay",
                "at least 0"},
        Refusal{"schedule: {linear: {warmup_steps: -1}}", "schedule.linear.warmup_steps",
                "at least 0"},
        Refusal{"schedule: {linear: {warmup_steps: 5, total_steps: 5}}",
                "schedule.linear.total_steps", "above warmup_steps, 5"},
        Refusal{"optimizer: {adagrad: {lr_decay: -1}}", "optimizer.adagrad.lr_decay", "at least 0"},
        Refusal{"optimizer: {adagrad: {eps: 0}}", "optimizer.adagrad.eps", "above 0"},
        Refusal{"optimizer: {adagrad: {initial_accumulator_value: -1}}",
                "optimizer.adagrad.initial_accumulator_value", "at least 0"},
        Refusal{"optimizer: {rmsprop: {alpha: 1}}", "optimizer.rmsprop.alpha", "0 and below 1"},
        Refusal{"optimizer: {rmsprop: {momentum: -1}}", "optimizer.rmsprop.momentum", "at least 0"},
        Refusal{"optimizer: {rmsprop: {eps: 0}}", "optimizer.rmsprop.eps", "above 0"},
        Refusal{"optimizer: {adamw: {}, no_decay: {}}", "optimizer.no_decay",
                "biases, norms or name_contains"},
        Refusal{"optimizer: {adamw: {}, no_decay: {norms: false}}", "optimizer.no_decay",
                "biases, norms or name_contains"},
        Refusal{"optimizer: {adamw: {}, no_decay: {name_contains: ['']}}",
                "optimizer.no_decay.name_contains[0]", "1 to 256 bytes"},
        Refusal{"optimizer: {adamw: {weight_decay: 0}, no_decay: {norms: true}}",
                "optimizer.no_decay", "weight_decay above 0"},
        Refusal{"optimizer: {adagrad: {}, no_decay: {norms: true}}", "optimizer.no_decay",
                "weight_decay above 0"},
        Refusal{"schedule: {cosine: {total_steps: 0}}", "schedule.cosine.total_steps",
                "at least 1"},
        Refusal{"schedule: {cosine: {num_cycles: 0}}", "schedule.cosine.num_cycles", "above 0"},
        Refusal{"schedule: {constant: {warmup_steps: -1}}", "schedule.constant.warmup_steps",
                "at least 0"},
        Refusal{"schedule: {cosine_with_restarts: {num_cycles: 0}}",
                "schedule.cosine_with_restarts.num_cycles", "at least 1"},
        Refusal{"schedule: {cosine_with_restarts: {warmup_steps: 5, total_steps: 5}}",
                "schedule.cosine_with_restarts.total_steps", "above warmup_steps, 5"},
        Refusal{"schedule: {polynomial: {warmup_steps: 5, total_steps: 4}}",
                "schedule.polynomial.total_steps", "above warmup_steps, 5"},
        Refusal{"schedule: {polynomial: {power: 0}}", "schedule.polynomial.power", "above 0"},
        Refusal{"schedule: {polynomial: {lr_end: 0.001}}", "schedule.polynomial.lr_end",
                "below the optimizer's lr, 0.001"},
        Refusal{"{optimizer: {rmsprop: {}}, schedule: {polynomial: {lr_end: 0.02}}}",
                "schedule.polynomial.lr_end", "below the optimizer's lr, 0.01"},
        Refusal{"{optimizer: {adam: {lr: 0}}, schedule: {polynomial: {}}}",
                "schedule.polynomial.lr_end", "below the optimizer's lr, 0"},
        Refusal{"schedule: {inverse_sqrt: {timescale: 0}}", "schedule.inverse_sqrt.timescale",
                "at least 1"},
        Refusal{"schedule: {step: {}}", "schedule.step.step_size", "required"},
        Refusal{"schedule: {step: {step_size: 0}}", "schedule.step.step_size", "at least 1"},
        Refusal{"schedule: {step: {step_size: 1, gamma: 0}}", "schedule.step.gamma", "above 0"},
        Refusal{"schedule: {multi_step: {}}", "schedule.multi_step.milestones", "required"},
        Refusal{"schedule: {multi_step: {milestones: [0]}}", "schedule.multi_step.milestones[0]",
                "at least 1"},
        Refusal{"schedule: {multi_step: {milestones: [3, 0]}}", "schedule.multi_step.milestones[1]",
                "at least 1"},
        Refusal{"{optimizer: {adam: {lr: -1}}, schedule: {polynomial: {}}}", "optimizer.adam.lr",
                "at least 0"},
        Refusal{"schedule: {polynomial: {lr_end: .inf}}", "schedule.polynomial.lr_end", "finite"},
        Refusal{"schedule: {multi_step: {milestones: [3, 4, 4]}}",
                "schedule.multi_step.milestones[2]", "above the one before, 4"},
        Refusal{"schedule: {exponential: {}}", "schedule.exponential.gamma", "required"},
        Refusal{"schedule: {exponential: {gamma: 0}}", "schedule.exponential.gamma", "above 0"},
        Refusal{"schedule: {one_cycle: {total_steps: 1}}", "schedule.one_cycle.total_steps",
                "at least 2"},
        Refusal{"schedule: {one_cycle: {pct_start: 1}}", "schedule.one_cycle.pct_start",
                "above 0 and below 1"},
        Refusal{"schedule: {one_cycle: {pct_start: 0.6, three_phase: true}}",
                "schedule.one_cycle.pct_start", "at most 0.5 with three_phase"},
        Refusal{"schedule: {one_cycle: {anneal_strategy: cosine}}",
                "schedule.one_cycle.anneal_strategy", "cos, linear"},
        Refusal{"schedule: {one_cycle: {div_factor: 0}}", "schedule.one_cycle.div_factor",
                "above 0"},
        Refusal{"schedule: {one_cycle: {max_momentum: 1}}", "schedule.one_cycle.max_momentum",
                "0 and below 1"},
        Refusal{"schedule: {one_cycle: {max_momentum: 0.5}}", "schedule.one_cycle.base_momentum",
                "0.85 is not allowed; allowed: at most max_momentum, 0.5"},
        Refusal{"schedule: {one_cycle: {cycle_momentum: false, max_momentum: 0.9}}",
                "schedule.one_cycle.max_momentum", "no effect without cycle_momentum"},
        Refusal{"{optimizer: {adagrad: {}}, schedule: {one_cycle: {}}}",
                "schedule.one_cycle.cycle_momentum", "needs an optimizer with a momentum"},
        Refusal{"{optimizer: {lbfgs: {}}, schedule: {one_cycle: {}}}",
                "schedule.one_cycle.cycle_momentum", "needs an optimizer with a momentum"},
        Refusal{"schedule: {reduce_on_plateau: {}}", "schedule.reduce_on_plateau.metric",
                "\"eval/loss\" needs data.evaluation or data.split"},
        Refusal{"{schedule: {reduce_on_plateau: {metric: eval/perplexity}}, "
                "data: {split: {evaluation_fraction: 0.1}}}",
                "schedule.reduce_on_plateau.metric", "needs loss.next_token"},
        Refusal{"schedule: {reduce_on_plateau: {metric: train/accuracy}}",
                "schedule.reduce_on_plateau.metric", "train/loss, eval/loss"},
        Refusal{"schedule: {reduce_on_plateau: {metric: train/loss, factor: 1}}",
                "schedule.reduce_on_plateau.factor", "above 0 and below 1"},
        Refusal{"schedule: {reduce_on_plateau: {metric: train/loss, mode: least}}",
                "schedule.reduce_on_plateau.mode", "min, max"},
        Refusal{"schedule: {reduce_on_plateau: {metric: train/loss, patience: -1}}",
                "schedule.reduce_on_plateau.patience", "at least 0"},
        Refusal{"optimizer: {lbfgs: {max_iter: 0}}", "optimizer.lbfgs.max_iter", "1 to 100000"},
        Refusal{"optimizer: {lbfgs: {history_size: 0}}", "optimizer.lbfgs.history_size",
                "1 to 10000"},
        Refusal{"optimizer: {lbfgs: {line_search_fn: armijo}}", "optimizer.lbfgs.line_search_fn",
                "strong_wolfe"},
        Refusal{"optimizer: {lbfgs: {}, no_decay: {norms: true}}", "optimizer.no_decay",
                "weight_decay above 0"},
        Refusal{"{optimizer: {lbfgs: {}}, accelerator: {gradient_accumulation_plugin: "
                "{num_steps: 2}}}",
                "accelerator.gradient_accumulation_plugin.num_steps",
                "not allowed with optimizer.lbfgs"},
        Refusal{"{optimizer: {lbfgs: {}}, loop: {clipping: {max_norm: 1}}}", "loop.clipping",
                "not allowed with optimizer.lbfgs"},
        Refusal{"{optimizer: {lbfgs: {}}, loop: {log_grad_norm: true}}", "loop.log_grad_norm",
                "not allowed with optimizer.lbfgs"},
        Refusal{"{optimizer: {lbfgs: {}}, loop: {on_nonfinite_loss: stop}}",
                "loop.on_nonfinite_loss", "not allowed with optimizer.lbfgs"},
        Refusal{"{optimizer: {lbfgs: {}}, loop: {local_sgd_steps: 2}}", "loop.local_sgd_steps",
                "not allowed with optimizer.lbfgs"},
        Refusal{"{optimizer: {lbfgs: {}}, accelerator: {mixed_precision: fp16, "
                "emulate_fp16: true}}",
                "accelerator.mixed_precision", "fp16 with scaler_kwargs.enabled false"},
        Refusal{"{loop: {local_sgd_steps: 2}, accelerator: {mixed_precision: fp16, "
                "emulate_fp16: true}}",
                "loop.local_sgd_steps", "not allowed with accelerator.mixed_precision \"fp16\""},
        Refusal{"loop: {num_epochs: 0}", "loop.num_epochs", "1 to 1000000"},
        Refusal{"loop: {num_epochs: 1000001}", "loop.num_epochs", "1 to 1000000"},
        Refusal{"loop: {max_steps: 0}", "loop.max_steps", "at least 1"},
        Refusal{"loop: {seed: -1}", "loop.seed", "at least 0"},
        Refusal{"loop: {clipping: {max_norm: 0}}", "loop.clipping.max_norm", "above 0"},
        Refusal{"loop: {clipping: {max_value: -1}}", "loop.clipping.max_value", "above 0"},
        Refusal{"loop: {evaluate_every_epochs: 2}", "loop.evaluate_every_epochs",
                "no held-out data"},
        Refusal{"{loop: {evaluate_every_epochs: 0}, data: {split: {evaluation_fraction: 0.5}}}",
                "loop.evaluate_every_epochs", "at least 1"},
        Refusal{"loop: {checkpoint_every_steps: 0}", "loop.checkpoint_every_steps", "at least 1"},
        Refusal{"loop: {log_every_steps: 0}", "loop.log_every_steps", "at least 1"},
        Refusal{"loop: {num_cpu_threads_per_process: 1025}", "loop.num_cpu_threads_per_process",
                "1 to 1024"}));

INSTANTIATE_TEST_SUITE_P(
    Averaging, RefusedJob,
    testing::Values(Refusal{"loss: {cross_entropy: {}, averaging: tokens}", "loss.averaging",
                            "num_steps, micro_batches, items"},
                    Refusal{
                        "{loss: {averaging: items}, accelerator: {gradient_accumulation_plugin: "
                        "{num_steps: 2, sync_with_dataloader: false}}}",
                        "loss.averaging", "sync_with_dataloader false"}));

INSTANTIATE_TEST_SUITE_P(
    EarlyStopping, RefusedJob,
    testing::Values(
        Refusal{"loop: {early_stopping: [{patience: 2}]}", "loop.early_stopping[0].metric",
                "required"},
        Refusal{"loop: {early_stopping: [{metric: loss, patience: 2}]}",
                "loop.early_stopping[0].metric", "train/loss, eval/loss"},
        Refusal{"loop: {early_stopping: [{metric: train/loss}]}", "loop.early_stopping[0]",
                "patience, threshold or both"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, patience: 0}]}",
                "loop.early_stopping[0].patience", "at least 1"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, patience: 1, min_delta: -1}]}",
                "loop.early_stopping[0].min_delta", "at least 0"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, threshold: 1, min_delta: 1}]}",
                "loop.early_stopping[0].min_delta", "without patience"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, threshold: .nan}]}",
                "loop.early_stopping[0].threshold", "finite"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, patience: 1, mode: best}]}",
                "loop.early_stopping[0].mode", "min, max"},
        Refusal{"loop: {early_stopping: [{metric: train/loss, patience: 1}, "
                "{metric: eval/loss, patience: 1}]}",
                "loop.early_stopping[1].metric", "no held-out data"},
        Refusal{"{loop: {early_stopping: [{metric: eval/perplexity, patience: 1}]}, "
                "data: {split: {evaluation_fraction: 0.5}}}",
                "loop.early_stopping[0].metric", "needs loss.next_token"},
        Refusal{"{loop: {early_stopping: [{metric: eval/accuracy, patience: 1}]}, "
                "data: {split: {evaluation_fraction: 0.5}}, loss: {mse: {}}, "
                "model: {mlp: {layer_sizes: [4, 1]}}}",
                "loop.early_stopping[0].metric", "needs loss.cross_entropy"},
        Refusal{"loop: {on_nonfinite_loss: ignore}", "loop.on_nonfinite_loss",
                "continue, stop, fail"}));

INSTANTIATE_TEST_SUITE_P(
    LocalSgd, RefusedJob,
    testing::Values(
        Refusal{"loop: {local_sgd_steps: 0}", "loop.local_sgd_steps", "at least 1"},
        Refusal{"{loop: {local_sgd_steps: 4}, accelerator: {ddp_kwargs: {comm_hook: fp16}}}",
                "loop.local_sgd_steps", "comm_hook"},
        Refusal{"{loop: {local_sgd_steps: 4}, accelerator: {ddp_kwargs: {static_graph: true}}}",
                "loop.local_sgd_steps", "static_graph"},
        Refusal{"{loop: {local_sgd_steps: 4}, accelerator: {gradient_accumulation_plugin: "
                "{num_steps: 2, sync_each_batch: true}}}",
                "loop.local_sgd_steps", "sync_each_batch"},
        Refusal{"{loop: {local_sgd_steps: 4}, loss: {averaging: items}}", "loop.local_sgd_steps",
                "items"}));

INSTANTIATE_TEST_SUITE_P(
    Tracking, RefusedJob,
    testing::Values(
        Refusal{"tracking: {project: .hidden}", "tracking.project", "not \".\" at the start"},
        Refusal{"tracking: {project: a/b}", "tracking.project", "letters, digits"},
        Refusal{"tracking: {project: ''}", "tracking.project", "letters, digits"},
        Refusal{"tracking: {trackers: [{}]}", "tracking.trackers[0]",
                "exactly one of tensorboard, wandb"},
        Refusal{"tracking: {trackers: [{tensorboard: {}}, {tensorboard: {}}]}",
                "tracking.trackers[1].tensorboard", "one of each kind"},
        Refusal{"tracking: {trackers: [{tensorboard: {filename_suffix: a/b}}]}",
                "tracking.trackers[0].tensorboard.filename_suffix", "without \"/\""},
        Refusal{"tracking: {trackers: [{tensorboard: {flush_secs: 3601}}]}",
                "tracking.trackers[0].tensorboard.flush_secs", "0 to 3600"},
        Refusal{"tracking: {trackers: [{wandb: {mode: on}}]}", "tracking.trackers[0].wandb.mode",
                "allowed: online, offline, disabled"},
        Refusal{"tracking: {trackers: [{swanlab: {mode: on}}]}",
                "tracking.trackers[0].swanlab.mode", "allowed: cloud, online, offline, disabled"},
        Refusal{"tracking: {trackers: [{comet_ml: {experiment_key: short}}]}",
                "tracking.trackers[0].comet_ml.experiment_key", "32 to 50"},
        Refusal{"tracking: {trackers: [{comet_ml: {start_mode: get}}]}",
                "tracking.trackers[0].comet_ml.experiment_key", "required with start_mode"},
        Refusal{"tracking: {trackers: [{swanlab: {id: a/b}}]}", "tracking.trackers[0].swanlab.id",
                "1 to 64 letters"},
        Refusal{"tracking: {trackers: [{aim: {run_hash: ABC}}]}",
                "tracking.trackers[0].aim.run_hash", "24 lower-case hexadecimal digits"},
        Refusal{"tracking: {trackers: [{aim: {repo: /a/folder}}]}", "tracking.trackers[0].aim.repo",
                "start with aim://"},
        Refusal{"tracking: {trackers: [{dvclive: {dir: ../up}}]}",
                "tracking.trackers[0].dvclive.dir", "not \".\" at the start"},
        Refusal{"tracking: {trackers: [{custom: {}}]}", "tracking.trackers[0].custom.name",
                "required"}));

class RefusedGptJob : public JobSpecTest, public testing::WithParamInterface<Refusal> {};

TEST_P(RefusedGptJob, NamesPathAndWhatIsAllowed) {
  EXPECT_THAT(ViolationsOf(Validate(With(kGptJob, GetParam().text))),
              ElementsAre(Pair(GetParam().path, HasSubstr(GetParam().description))));
}

INSTANTIATE_TEST_SUITE_P(
    Task, RefusedGptJob,
    testing::Values(
        Refusal{"model: {gpt: {num_heads: 5}}", "model.gpt.num_heads",
                "5 is not allowed; allowed: divisors of embedding_size, 64"},
        Refusal{"model: {gpt: {num_heads: 0}}", "model.gpt.num_heads", "at least 1"},
        Refusal{"model: {gpt: {num_layers: 1025}}", "model.gpt.num_layers", "1 to 1024"},
        Refusal{"model: {gpt: {context_length: 16}}", "data.train.bytes.sequence_length",
                "32 is not allowed; allowed: at most model.gpt.context_length, 16"},
        Refusal{"data: {train: {csv: {}}}", "data.train", "bytes format"},
        Refusal{"data: {evaluation: {file: data/train.csv, csv: {}}}", "data.evaluation",
                "bytes format"},
        Refusal{"loss: {cross_entropy: {}}", "loss", "the gpt model needs next_token"},
        Refusal{"data: {train: {normalization: {}}}", "data.train.normalization",
                "not allowed with bytes"},
        Refusal{"data: {train: {feature_shape: [32]}}", "data.train.feature_shape",
                "not allowed with bytes"},
        Refusal{"data: {train: {bytes: {sequence_length: 0}}}", "data.train.bytes.sequence_length",
                "1 to 1048576"},
        Refusal{"data: {train: {bytes: {stride: 0}}}", "data.train.bytes.stride", "at least 1"}));

TEST_F(JobSpecTest, NeedsAnEnd) {
  JobSpec spec = Parse<JobSpec>(kJob);
  spec.mutable_loop()->clear_num_epochs();
  EXPECT_THAT(ViolationsOf(Validate(spec)),
              ElementsAre(Pair("loop", "required: num_epochs, max_steps or both")));
}

TEST_F(JobSpecTest, NamesTheMembersThatAModelMayHave) {
  JobSpec spec = Parse<JobSpec>(kJob);
  spec.mutable_model()->clear_model();
  EXPECT_THAT(ViolationsOf(Validate(spec)),
              ElementsAre(Pair("model", "required: exactly one of mlp, convnet, gpt")));
}

TEST_F(JobSpecTest, CapsTextsAndCounts) {
  JobSpec spec = Parse<JobSpec>(kJob);
  spec.set_display_name(std::string(257, 'x'));
  for (int i = 0; i < 65; ++i) (*spec.mutable_labels())[absl::StrCat("k", i)] = "v";
  (*spec.mutable_labels())["k0"] = std::string(256, 'x');
  spec.mutable_data()->mutable_train()->set_file("data/" + std::string(4092, 'x'));
  for (int i = 0; i < 1001; ++i) (*spec.mutable_tracking()->mutable_config())[absl::StrCat(i)] = "";
  spec.mutable_tracking()->set_project(std::string(129, 'x'));
  EXPECT_THAT(ViolationsOf(Validate(spec)),
              ElementsAre(Pair("data.train.file", HasSubstr("has 4097 bytes")),
                          Pair("display_name", HasSubstr("at most 256")),
                          Pair("labels", HasSubstr("0 to 64")),
                          Pair("labels[\"k0\"]", HasSubstr("at most 255")),
                          Pair("tracking.config", HasSubstr("0 to 1000")),
                          Pair("tracking.project", HasSubstr("at most 128"))));
}

TEST_F(JobSpecTest, NeedsOneCudaDeviceForEachRank) {
  limits_.cuda_devices = 1;
  EXPECT_THAT(ViolationsOf(Validate(With(kJob, "device: cuda"))),
              ElementsAre(Pair("num_processes", HasSubstr("at most 1, one rank for each"))));
  limits_.cuda_devices = 2;
  EXPECT_TRUE(Validate(With(kJob, "device: cuda")).ok());
}

TEST_F(JobSpecTest, NamesWhatIsNotImplemented) {
  for (const auto& [change, feature] :
       {std::pair("accelerator: {mixed_precision: fp8}", "accelerator.mixed_precision=\"fp8\""),
        std::pair("accelerator: {profile_kwargs: {}}", "accelerator.profile_kwargs")}) {
    const absl::Status status = Validate(With(kJob, change));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(feature, " is not")))
        << change;
  }
}

TEST_F(JobSpecTest, WhatIsInvalidComesBeforeWhatIsNotImplemented) {
  const absl::Status status =
      Validate(With(kJob, "{num_processes: 0, accelerator: {profile_kwargs: {}}}"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobSpecTest, ANodeWithoutRootsSaysSo) {
  limits_.data_roots.clear();
  EXPECT_THAT(
      ViolationsOf(Validate(Parse<JobSpec>(kJob))),
      ElementsAre(Pair("data.train.file", "unknown root \"data\"; this node's roots: none")));
}

TEST(ParseDataFileTest, SplitsAtTheFirstSlash) {
  const auto file = ParseDataFile("root/a/b.csv");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->root, "root");
  EXPECT_EQ(file->path, "a/b.csv");
}

TEST(ParseDataFileTest, RefusesWhatIsNoSuchName) {
  for (const std::string& name :
       {std::string(""), std::string("a"), std::string("/a/b"), std::string("a/"),
        std::string("a//b"), std::string("a/./b"), std::string("a/b/.."), std::string("../a"),
        std::string("a/b\0c", 5), "a/" + std::string(4095, 'x')}) {
    EXPECT_EQ(ParseDataFile(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(ParseDataFile("a/" + std::string(4094, 'x')).ok());
  EXPECT_TRUE(ParseDataFile("a/..b/c.").ok());
}

TEST(IsValidJobIdTest, FollowsTheNamingRule) {
  for (const std::string& id : {std::string("a"), std::string("a-1"), std::string(63, 'a')}) {
    EXPECT_TRUE(IsValidJobId(id)) << id;
  }
  for (const std::string& id :
       {std::string(""), std::string("A"), std::string("1a"), std::string("-a"), std::string("a-"),
        std::string("a_b"), std::string("a/b"), std::string("a."), std::string(64, 'a')}) {
    EXPECT_FALSE(IsValidJobId(id)) << id;
  }
}

}  // namespace
}  // namespace accel::config
