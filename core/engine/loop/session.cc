#include "core/engine/loop/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/model_files.h"
#include "core/engine/cuda/loader.h"
#include "core/engine/distributed/comm_hooks.h"
#include "core/engine/loop/failure.h"
#include "core/engine/loss.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::StartAttempt;
using accel::v1::Failure;

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

int ThreadsPerRank(const StartAttempt& start) {
  const auto& loop = start.spec().loop();
  if (loop.has_num_cpu_threads_per_process()) return loop.num_cpu_threads_per_process();
  return std::max(1, UsableCores() / std::max(1, start.local_world_size()));
}

// The module lies beside this program or in the lib folder next to its bin.
absl::StatusOr<const CudaModule*> OpenCudaModule() {
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path beside = bin / kCudaModuleFileName;
  return LoadCudaModule(fs::exists(beside) ? beside
                                           : bin.parent_path() / "lib" / kCudaModuleFileName);
}

int64_t SequenceLength(const Dataset& data) {
  const std::vector<int64_t> shape = data.feature_shape();
  return data.target_kind() == TargetKind::kNextToken && !shape.empty() ? shape.front() : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const StartAttempt& start,
                                                         const std::function<bool()>& stopped,
                                                         const Warn& warn) {
  std::unique_ptr<Session> session(new Session(start));
  TrainerState restored;
  const std::vector<std::function<absl::Status()>> phases{
      [&] { return WithCause(session->OpenDevice(), Failure::JOB); },
      [&] { return WithCause(session->data_.Load(session->start_), Failure::DATA); },
      [&]() -> absl::Status {
        auto connected = Communicator::Connect(start, session->device_, session->cuda_);
        if (!connected.ok()) return WithCause(connected.status(), Failure::COLLECTIVE);
        session->communicator_ = *std::move(connected);
        return absl::OkStatus();
      },
      [&] {
        return WithCause(session->data_.Share(*session->communicator_, session->device_),
                         Failure::DATA);
      },
      [&] { return WithCause(session->CreateModel(), Failure::JOB); },
      [&] { return WithCause(session->PlanLoop(warn), Failure::JOB); },
      [&] { return WithCause(session->CreateOptimizer(), Failure::JOB); },
      [&] { return WithCause(session->Restore(&restored), Failure::STORAGE); },
      [&] { return WithCause(session->CheckSamePosition(), Failure::JOB); },
      [&] { return session->AddPrecisionSections(); },
      [&] { return session->AddLoopSections(); },
      [&] { return WithCause(session->Replicate(restored, warn), Failure::STORAGE); },
      [&] { return WithCause(session->RestoreRandomStates(), Failure::STORAGE); },
  };
  for (const auto& phase : phases) {
    if (stopped()) return absl::CancelledError("stopped before the first step");
    ACCEL_RETURN_IF_ERROR(phase());
  }
  return session;
}

absl::Status Session::OpenDevice() {
  at::set_num_threads(ThreadsPerRank(start_));
  if (spec().device() == "cuda") {
    // Before the first look at the generators: LibTorch looks for CUDA once.
    ACCEL_ASSIGN_OR_RETURN(cuda_, OpenCudaModule());
    ACCEL_ASSIGN_OR_RETURN(const int count, cuda_->DeviceCount());
    if (count == 0) return absl::FailedPreconditionError("no cuda device on this node");
    device_ = at::Device(at::kCUDA, static_cast<at::DeviceIndex>(start_.local_rank() % count));
    ACCEL_RETURN_IF_ERROR(cuda_->SetDevice(device_.index()));
  }
  ACCEL_ASSIGN_OR_RETURN(autocast_, Autocast::Create(accelerator(), device_.type()));
  at::manual_seed(static_cast<uint64_t>(SeedOf(spec().loop())));
  return absl::OkStatus();
}

absl::Status Session::CheckData(const std::vector<int64_t>& output_shape) const {
  ACCEL_RETURN_IF_ERROR(CheckTargets(data_.train(), spec().loss(), output_shape));
  if (data_.evaluation() == nullptr) return absl::OkStatus();
  return CheckTargets(*data_.evaluation(), spec().loss(), output_shape);
}

absl::Status Session::CreateModel() {
  const Dataset& data = data_.train();
  ACCEL_RETURN_IF_ERROR(CheckInput(spec().model(), data.target_kind(), data.feature_shape()));
  const std::vector<int64_t> output = OutputShape(spec().model(), data.feature_shape());
  ACCEL_RETURN_IF_ERROR(CheckData(output));
  data_.CreateLoaders(*communicator_, device_, output);
  ACCEL_ASSIGN_OR_RETURN(model_, BuildModel(spec().model(), SequenceLength(data)));
  // A checkpoint has the weights of a job that resumes.
  if (spec().model().has_init_from() && start_.resume_dir().empty()) {
    const DataRoots roots(start_.data_roots().begin(), start_.data_roots().end());
    ACCEL_RETURN_IF_ERROR(
        LoadInitialWeights(spec().model().init_from(), roots, StateDict(*model_)));
  }
  model_->to(device_);
  model_->train();
  for (const at::Tensor& parameter : model_->parameters()) {
    if (parameter.requires_grad()) parameters_.push_back(parameter);
  }
  return absl::OkStatus();
}

absl::Status Session::PlanLoop(const Warn& warn) {
  DataLoader& loader = train_loader();
  int64_t rounds = 0;
  if (loader.batches_per_epoch().has_value()) {
    rounds = communicator_->Min(*loader.batches_per_epoch());
    if (rounds == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an epoch has no batch for every rank: ", data_.train().size(), " samples, batch size ",
          spec().data().batch_size(), ", ", start_.world_size(), " ranks"));
    }
    if (rounds < *loader.rounds_per_epoch() && start_.rank() == 0) {
      warn("data", absl::StrCat("with even_batches off some ranks have more batches than others: ",
                                "each epoch trains the ", rounds, " of ",
                                *loader.rounds_per_epoch(), " that all have"));
    }
    loader.LimitRounds(rounds);
  }
  plan_ = MakeLoopPlan(spec().loop(), accelerator().gradient_accumulation_plugin(), rounds);
  if (rounds > 0 && plan_.total_steps == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient_accumulation_plugin: num_steps is ", plan_.accumulation,
                     ", the job has ", plan_.total_rounds, " batches: no step is ever complete"));
  }
  const auto& project = accelerator().project_config();
  auto checkpointer = Checkpointer::Create(
      FileSystem::Real(), start_.checkpoints_dir(), start_.next_checkpoint(),
      project.has_total_limit() ? std::optional(project.total_limit()) : std::nullopt,
      *communicator_);
  if (!checkpointer.ok()) return WithCause(checkpointer.status(), Failure::STORAGE);
  checkpointer_.emplace(*std::move(checkpointer));
  return absl::OkStatus();
}

absl::Status Session::CreateOptimizer() {
  early_stopping_ = EarlyStopping(spec().loop());
  if (spec().loop().has_local_sgd_steps() && start_.world_size() > 1) {
    local_sgd_.emplace(spec().loop().local_sgd_steps(), model_->parameters(), *communicator_);
  }
  std::vector<NamedParameter> parameters;
  for (const auto& item : model_->named_parameters()) {
    if (item.value().requires_grad()) parameters.push_back({item.key(), item.value()});
  }
  ACCEL_RETURN_IF_ERROR(CheckMasterWeights(accelerator(), parameters));
  ACCEL_ASSIGN_OR_RETURN(optimizer_, Optimizer::Create(spec().optimizer(), std::move(parameters)));
  // A scheduler that Accelerate prepared steps once for each rank's batch, so that a schedule made
  // for the unprepared loader keeps its length.
  const bool with_optimizer = accelerator().step_scheduler_with_optimizer();
  const bool once = !with_optimizer || accelerator().dataloader_config().split_batches();
  const int64_t steps_per_update = once ? 1 : start_.world_size();
  const bool counts_rounds =
      !with_optimizer || accelerator().gradient_accumulation_plugin().adjust_scheduler();
  const int64_t updates = counts_rounds ? plan_.total_rounds : plan_.total_steps;
  schedule_.emplace(spec().schedule(), optimizer_->learning_rate(), updates * steps_per_update,
                    steps_per_update);
  ApplySchedule();
  CreateScaler();
  return absl::OkStatus();
}

absl::Status Session::Replicate(const TrainerState& restored, const Warn& warn) {
  const auto& kwargs = accelerator().ddp_kwargs();
  if (start_.world_size() == 1) {
    constexpr char kReason[] = "no effect with one rank: nothing is communicated";
    if (HasCommHook(kwargs)) warn("accelerator.ddp_kwargs.comm_hook", kReason);
    if (spec().loop().has_local_sgd_steps()) warn("loop.local_sgd_steps", kReason);
    return absl::OkStatus();
  }
  // Ranks that train apart begin with the same weights, and reduce and broadcast nothing.
  if (local_sgd_.has_value()) return absl::OkStatus();
  const bool same_cap = restored.bucket_cap_mb == kwargs.bucket_cap_mb() &&
                        restored.world_size == start_.world_size();
  ddp_ = std::make_unique<DistributedDataParallel>(model_, kwargs, *communicator_,
                                                   same_cap ? restored.buckets : BucketIndices{});
  return RegisterCommHook(restored, warn);
}

absl::Status Session::RegisterCommHook(const TrainerState& restored, const Warn& warn) {
  const auto& kwargs = accelerator().ddp_kwargs();
  const bool logs = start_.rank() == 0;
  CommHook made = MakeCommHook(kwargs, communicator_->group(), [logs](const std::string& line) {
    if (logs) std::fputs(absl::StrCat("accel-worker: ", line, "\n").c_str(), stderr);
  });
  if (made.hook == nullptr) return absl::OkStatus();
  ddp_->RegisterCommHook(std::move(made.hook));
  hook_state_ = std::move(made.state);
  if (hook_state_ == nullptr || start_.resume_dir().empty()) return absl::OkStatus();
  if (restored.comm_hook != CommHookName(kwargs) ||
      restored.bucket_cap_mb != kwargs.bucket_cap_mb() ||
      restored.world_size != start_.world_size()) {
    if (start_.rank() == 0) {
      warn("accelerator.ddp_kwargs.comm_hook",
           absl::StrCat("begins anew with its iterations: the checkpoint is of comm_hook ",
                        restored.comm_hook, " with bucket_cap_mb ", restored.bucket_cap_mb, " and ",
                        restored.world_size, " ranks"));
    }
    return absl::OkStatus();
  }
  ACCEL_ASSIGN_OR_RETURN(const NamedTensors saved,
                         ReadHookState(start_.resume_dir(), start_.rank()));
  return hook_state_->Restore(saved, device_);
}

int64_t Session::num_parameters() const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters_) count += parameter.numel();
  return count;
}

void Session::SetReduceGradients(bool reduce) {
  if (ddp_ != nullptr) ddp_->set_require_backward_grad_sync(reduce);
}

at::Tensor Session::Forward(const at::Tensor& features) {
  return autocast_.Run(
      [&] { return ddp_ != nullptr ? ddp_->Forward(features) : model_->forward(features); });
}

at::Tensor Session::EvaluationForward(const at::Tensor& features) {
  return autocast_.Run([&] { return model_->forward(features); });
}

void Session::BeginEvaluation() {
  model_->eval();
  if (ddp_ != nullptr) ddp_->SyncBuffersForEvaluation();
  if (local_sgd_.has_value()) averaged_.emplace(*local_sgd_);
}

void Session::EndEvaluation() {
  averaged_.reset();
  model_->train();
}

}  // namespace accel::engine
