// Writes what the engine makes of a part of a job as safetensors, so that the oracle tests can
// compare it with PyTorch and Accelerate.
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "accel/v1/job.pb.h"
#include "core/base/status_macros.h"
#include "core/config/text_format.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/loop/job_data.h"
#include "core/engine/loss.h"
#include "core/engine/model/model.h"
#include "core/engine/optim/grad_scaler.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/schedule.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

struct Arguments {
  std::vector<std::string> jobs;
  std::string input;
  std::string output;
  std::map<std::string, std::string> roots;
  int64_t world_size = 1;
  int64_t epochs = 1;
  int64_t skip_batches = 0;
  bool evaluation = false;
  double base_rate = 1;
  int64_t steps_per_update = 1;
  int64_t updates = 0;
  int64_t resume_at = -1;
};

absl::StatusOr<accel::v1::JobSpec> ReadJob(const std::string& path) {
  std::ifstream stream(path);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  accel::v1::JobSpec spec;
  ACCEL_RETURN_IF_ERROR(config::ParseMessage(text, &spec));
  return spec;
}

// From tensors `input` and `targets`: `parameter.<name>`, `buffer.<name>`, and after a forward and
// backward in training mode `output`, `loss`, `gradient.<name>`, `buffer_after.<name>`; then the
// `evaluation_output` in evaluation mode.
absl::Status DumpModel(const Arguments& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs.front()));
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors inputs, ReadSafetensors(arguments.input));
  const std::map<std::string, at::Tensor> input(inputs.begin(), inputs.end());
  torch::manual_seed(static_cast<uint64_t>(spec.loop().seed()));
  ACCEL_ASSIGN_OR_RETURN(const std::shared_ptr<Model> model,
                         BuildModel(spec.model(), spec.data().train().bytes().sequence_length()));

  NamedTensors tensors;
  for (const auto& entry : model->named_parameters()) {
    tensors.emplace_back(absl::StrCat("parameter.", entry.key()), entry.value().detach().clone());
  }
  for (const auto& entry : model->named_buffers()) {
    tensors.emplace_back(absl::StrCat("buffer.", entry.key()), entry.value().clone());
  }
  model->train();
  const at::Tensor output = model->forward(input.at("input"));
  const at::Tensor loss = ComputeLoss(spec.loss(), output, input.at("targets"));
  loss.backward();
  tensors.emplace_back("output", output);
  tensors.emplace_back("loss", loss);
  for (const auto& entry : model->named_parameters()) {
    tensors.emplace_back(absl::StrCat("gradient.", entry.key()), entry.value().grad());
  }
  for (const auto& entry : model->named_buffers()) {
    tensors.emplace_back(absl::StrCat("buffer_after.", entry.key()), entry.value());
  }
  model->eval();
  torch::NoGradGuard no_grad;
  tensors.emplace_back("evaluation_output", model->forward(input.at("input")));
  return WriteSafetensors(arguments.output, tensors);
}

// What the loaders of one rank give, of all jobs.
absl::Status DumpRank(const Arguments& arguments, const std::vector<accel::v1::JobSpec>& specs,
                      accel::internal::v1::StartAttempt start, Communicator& communicator,
                      NamedTensors* tensors) {
  const accel::v1::AcceleratorConfig defaults = start.resolved_accelerator();
  start.mutable_data_roots()->insert(arguments.roots.begin(), arguments.roots.end());
  for (size_t job = 0; job < specs.size(); ++job) {
    *start.mutable_spec() = specs[job];
    *start.mutable_resolved_accelerator() = defaults;
    start.mutable_resolved_accelerator()->MergeFrom(specs[job].accelerator());
    JobData data;
    ACCEL_RETURN_IF_ERROR(data.Load(start));
    ACCEL_RETURN_IF_ERROR(data.Share(communicator, at::kCPU));
    data.CreateLoaders(communicator, at::kCPU, /*output_shape=*/{1 << 30});
    DataLoader& loader = arguments.evaluation ? *data.evaluation_loader() : data.train_loader();
    for (int64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
      ACCEL_RETURN_IF_ERROR(loader.StartEpoch(epoch, arguments.skip_batches));
      for (;;) {
        ACCEL_ASSIGN_OR_RETURN(const std::optional<Batch> batch, loader.Next());
        if (!batch.has_value()) break;
        const std::string prefix = absl::StrCat(job, ".", communicator.rank(), ".", epoch, ".",
                                                loader.batches_done() - 1, ".");
        tensors->emplace_back(prefix + "features", batch->features);
        tensors->emplace_back(prefix + "targets", batch->targets);
        tensors->emplace_back(prefix + "valid", torch::tensor({batch->valid}, torch::kLong));
        tensors->emplace_back(prefix + "last", torch::tensor({batch->last}, torch::kLong));
      }
    }
  }
  return absl::OkStatus();
}

// `<job>.<rank>.<epoch>.<batch>.` and then `features`, `targets`, `valid` and `last`, jobs by their
// number. The ranks are threads of a process group.
absl::Status DumpBatches(const Arguments& arguments) {
  std::vector<accel::v1::JobSpec> specs;
  for (const std::string& job : arguments.jobs) {
    ACCEL_ASSIGN_OR_RETURN(specs.emplace_back(), ReadJob(job));
  }
  const auto starts = MakeStarts(static_cast<int>(arguments.world_size));
  std::vector<absl::Status> results(starts.size());
  std::vector<NamedTensors> tensors(starts.size());
  RunRanks(starts, [&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    results[rank] = DumpRank(arguments, specs, starts[rank], communicator, &tensors[rank]);
  });
  NamedTensors all;
  for (size_t rank = 0; rank < starts.size(); ++rank) {
    ACCEL_RETURN_IF_ERROR(results[rank]);
    all.insert(all.end(), tensors[rank].begin(), tensors[rank].end());
  }
  return WriteSafetensors(arguments.output, all);
}

// From `parameter`, `gradients` (one row a step) and `unscale` (1 where the step calls Unscale),
// with the job's optimizer and scaler: after each step `parameter`, `scale`, `growth_tracker` and
// `stepped`.
absl::Status DumpScaler(const Arguments& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs.front()));
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors inputs, ReadSafetensors(arguments.input));
  const std::map<std::string, at::Tensor> input(inputs.begin(), inputs.end());
  at::Tensor parameter = input.at("parameter").clone().set_requires_grad(true);
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                         Optimizer::Create(spec.optimizer(), {{"parameter", parameter}}));
  GradScaler scaler(spec.accelerator().scaler_kwargs(), {parameter}, at::kCPU);
  std::vector<at::Tensor> parameters;
  std::vector<double> scales;
  std::vector<int64_t> trackers;
  std::vector<int64_t> stepped;
  for (int64_t i = 0; i < input.at("gradients").size(0); ++i) {
    scaler.Scale((parameter * input.at("gradients")[i]).sum()).backward();
    if (input.at("unscale")[i].item<int64_t>() != 0) scaler.Unscale();
    stepped.push_back(scaler.Step(*optimizer) ? 1 : 0);
    scaler.Update();
    optimizer->ZeroGrad();
    parameters.push_back(parameter.detach().clone());
    scales.push_back(scaler.scale());
    trackers.push_back(scaler.Save().growth_tracker);
  }
  return WriteSafetensors(arguments.output,
                          {{"parameter", at::stack(parameters)},
                           {"scale", torch::tensor(scales, torch::kDouble)},
                           {"growth_tracker", torch::tensor(trackers, torch::kLong)},
                           {"stepped", torch::tensor(stepped, torch::kLong)}});
}

// `<job>`: the learning rate before each of `updates` optimizer steps; `<job>.momentum` the
// momentum, where the schedule has one. The schedule is taken up anew in the middle.
absl::Status DumpSchedules(const Arguments& arguments) {
  NamedTensors tensors;
  for (size_t job = 0; job < arguments.jobs.size(); ++job) {
    ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs[job]));
    const int64_t per_update = arguments.steps_per_update;
    const auto make = [&] {
      return Schedule(spec.schedule(), arguments.base_rate, arguments.updates * per_update,
                      per_update);
    };
    Schedule first = make();
    Schedule second = make();
    std::vector<double> rates;
    std::vector<double> momenta;
    for (int64_t i = 0; i < arguments.updates; ++i) {
      if (i == arguments.updates / 2) second.set_step(first.step());
      Schedule& schedule = i < arguments.updates / 2 ? first : second;
      rates.push_back(schedule.LearningRate());
      if (const auto momentum = schedule.Momentum()) momenta.push_back(*momentum);
      schedule.Advance();
    }
    tensors.emplace_back(absl::StrCat(job), torch::tensor(rates, torch::kDouble));
    if (momenta.empty()) continue;
    tensors.emplace_back(absl::StrCat(job, ".momentum"), torch::tensor(momenta, torch::kDouble));
  }
  return WriteSafetensors(arguments.output, tensors);
}

// From `values`: `<job>`, the rate that a schedule that goes by a metric has after each of them. A
// second schedule goes on from the first one's state in the middle.
absl::Status DumpPlateaus(const Arguments& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors inputs, ReadSafetensors(arguments.input));
  const at::Tensor values = inputs.front().second;
  NamedTensors tensors;
  for (size_t job = 0; job < arguments.jobs.size(); ++job) {
    ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs[job]));
    ReduceOnPlateau first(spec.schedule().reduce_on_plateau(), arguments.base_rate);
    ReduceOnPlateau second(spec.schedule().reduce_on_plateau(), arguments.base_rate);
    std::vector<double> rates;
    for (int64_t i = 0; i < values.numel(); ++i) {
      if (i == values.numel() / 2) second.Restore(first.state());
      ReduceOnPlateau& plateau = i < values.numel() / 2 ? first : second;
      plateau.Observe(values[i].item<double>());
      rates.push_back(plateau.rate());
    }
    tensors.emplace_back(absl::StrCat(job), torch::tensor(rates, torch::kDouble));
  }
  return WriteSafetensors(arguments.output, tensors);
}

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(
    const accel::v1::JobSpec& spec, const std::map<std::string, at::Tensor>& parameters) {
  std::vector<NamedParameter> named;
  for (const auto& [name, tensor] : parameters) named.push_back({name, tensor});
  return Optimizer::Create(spec.optimizer(), std::move(named));
}

// From `parameter.<name>` and `gradient.<step>.<name>`, steps from 0: `<job>.<step>.<name>` after
// each step, and `<job>.state.<slot>` at the end. A step without a gradient for a
// parameter leaves it out. At `resume_at` another optimizer goes on from the first one's state.
absl::Status DumpOptimizers(const Arguments& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors inputs, ReadSafetensors(arguments.input));
  const std::map<std::string, at::Tensor> input(inputs.begin(), inputs.end());
  constexpr absl::string_view kParameter = "parameter.";
  NamedTensors tensors;
  for (size_t job = 0; job < arguments.jobs.size(); ++job) {
    ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs[job]));
    std::map<std::string, at::Tensor> parameters;
    for (const auto& [name, tensor] : inputs) {
      if (!absl::StartsWith(name, kParameter)) continue;
      parameters[name.substr(kParameter.size())] = tensor.clone().requires_grad_(true);
    }
    ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(spec, parameters));
    for (int64_t step = 0; step < arguments.updates; ++step) {
      if (step == arguments.resume_at) {
        ACCEL_ASSIGN_OR_RETURN(auto next, MakeOptimizer(spec, parameters));
        ACCEL_RETURN_IF_ERROR(next->LoadState(optimizer->State()));
        optimizer = std::move(next);
      }
      for (auto& [name, parameter] : parameters) {
        const auto gradient = input.find(absl::StrCat("gradient.", step, ".", name));
        if (gradient != input.end()) parameter.mutable_grad() = gradient->second.clone();
      }
      optimizer->Step();
      optimizer->ZeroGrad();
      for (const auto& [name, parameter] : parameters) {
        tensors.emplace_back(absl::StrCat(job, ".", step, ".", name), parameter.detach().clone());
      }
    }
    for (const auto& [name, tensor] : optimizer->State()) {
      tensors.emplace_back(absl::StrCat(job, ".state.", name), tensor);
    }
  }
  return WriteSafetensors(arguments.output, tensors);
}

// From `x`, `y`, `parameter.a` and `parameter.b`: minimises the mean of (tanh(x a) b - y)^2 by
// steps with a closure. `<job>.<step>.<name>` after each step and `<job>.losses`, the loss of each
// evaluation, then `<job>.state.<slot>`. At `resume_at` another optimizer goes on from the first
// one's state.
absl::Status DumpClosures(const Arguments& arguments) {
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors inputs, ReadSafetensors(arguments.input));
  const std::map<std::string, at::Tensor> input(inputs.begin(), inputs.end());
  NamedTensors tensors;
  for (size_t job = 0; job < arguments.jobs.size(); ++job) {
    ACCEL_ASSIGN_OR_RETURN(const accel::v1::JobSpec spec, ReadJob(arguments.jobs[job]));
    std::map<std::string, at::Tensor> parameters;
    for (const char* name : {"a", "b"}) {
      const at::Tensor& start = input.at(absl::StrCat("parameter.", name));
      parameters[name] = start.clone().requires_grad_(true);
    }
    ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(spec, parameters));
    std::vector<double> losses;
    for (int64_t step = 0; step < arguments.updates; ++step) {
      if (step == arguments.resume_at) {
        ACCEL_ASSIGN_OR_RETURN(auto next, MakeOptimizer(spec, parameters));
        ACCEL_RETURN_IF_ERROR(next->LoadState(optimizer->State()));
        optimizer = std::move(next);
      }
      optimizer->StepWith([&] {
        optimizer->ZeroGrad();
        const at::Tensor output =
            input.at("x").matmul(parameters["a"]).tanh().matmul(parameters["b"]);
        const at::Tensor loss = (output - input.at("y")).square().mean();
        loss.backward();
        losses.push_back(loss.item<double>());
        return losses.back();
      });
      for (const auto& [name, parameter] : parameters) {
        tensors.emplace_back(absl::StrCat(job, ".", step, ".", name), parameter.detach().clone());
      }
    }
    tensors.emplace_back(absl::StrCat(job, ".losses"), torch::tensor(losses, torch::kDouble));
    for (const auto& [name, tensor] : optimizer->State()) {
      tensors.emplace_back(absl::StrCat(job, ".state.", name), tensor);
    }
  }
  return WriteSafetensors(arguments.output, tensors);
}

absl::Status Dump(const std::string& command, const Arguments& arguments) {
  if (command == "model") return DumpModel(arguments);
  if (command == "batches") return DumpBatches(arguments);
  if (command == "schedules") return DumpSchedules(arguments);
  if (command == "plateaus") return DumpPlateaus(arguments);
  if (command == "closures") return DumpClosures(arguments);
  if (command == "scaler") return DumpScaler(arguments);
  return DumpOptimizers(arguments);
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Writes what the engine makes of a part of a job as safetensors");
  app.require_subcommand(1);
  app.add_option("--job", arguments.jobs, "JobSpecs as YAML or JSON")->required();
  app.add_option("--output", arguments.output, "File to write")->required();
  CLI::App* const model = app.add_subcommand("model", "Parameters, output, loss and gradients");
  model->add_option("--input", arguments.input, "Tensors `input` and `targets`")->required();
  CLI::App* const scaler = app.add_subcommand("scaler", "Loss scaling and its steps");
  scaler->add_option("--input", arguments.input, "Tensors `parameter`, `gradients`, `unscale`")
      ->required();
  CLI::App* const batches = app.add_subcommand("batches", "Batches of every rank");
  batches->add_option_function<std::pair<std::string, std::string>>(
      "--root", [&](const auto& root) { arguments.roots.insert(root); }, "Name and folder");
  batches->add_option("--world-size", arguments.world_size);
  batches->add_option("--epochs", arguments.epochs);
  batches->add_option("--skip-batches", arguments.skip_batches, "In each epoch");
  batches->add_flag("--evaluation", arguments.evaluation, "Held-out data, not shuffled");
  CLI::App* const schedules = app.add_subcommand("schedules", "Learning rates");
  schedules->add_option("--base-rate", arguments.base_rate, "The optimizer's")->required();
  schedules->add_option("--updates", arguments.updates, "Optimizer steps")->required();
  schedules->add_option("--steps-per-update", arguments.steps_per_update);
  CLI::App* const optimizers = app.add_subcommand("optimizers", "Parameters after each step");
  optimizers->add_option("--input", arguments.input, "Parameters and gradients")->required();
  optimizers->add_option("--updates", arguments.updates, "Optimizer steps")->required();
  optimizers->add_option("--resume-at", arguments.resume_at, "Step of another optimizer");
  CLI::App* const plateaus = app.add_subcommand("plateaus", "Learning rates by a metric");
  plateaus->add_option("--input", arguments.input, "Tensor `values`")->required();
  plateaus->add_option("--base-rate", arguments.base_rate, "The optimizer's")->required();
  CLI::App* const closures = app.add_subcommand("closures", "Steps that evaluate the loss");
  closures->add_option("--input", arguments.input, "Parameters and data")->required();
  closures->add_option("--updates", arguments.updates, "Optimizer steps")->required();
  closures->add_option("--resume-at", arguments.resume_at, "Step of another optimizer");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Dump(app.get_subcommands().front()->get_name(), arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "engine_dump: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace accel::engine

int main(int argc, char** argv) {
  try {
    return accel::engine::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_dump: %s\n", error.what());
    return 1;
  }
}
