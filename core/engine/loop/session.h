#ifndef ACCEL_CORE_ENGINE_LOOP_SESSION_H_
#define ACCEL_CORE_ENGINE_LOOP_SESSION_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/worker.pb.h"
#include "core/engine/checkpoint/checkpointer.h"
#include "core/engine/checkpoint/state_section.h"
#include "core/engine/checkpoint/training_state.h"
#include "core/engine/data/loader.h"
#include "core/engine/distributed/ddp.h"
#include "core/engine/distributed/local_sgd.h"
#include "core/engine/distributed/power_sgd_state.h"
#include "core/engine/distributed/process_group.h"
#include "core/engine/loop/early_stopping.h"
#include "core/engine/loop/job_data.h"
#include "core/engine/loop/plan.h"
#include "core/engine/model/model.h"
#include "core/engine/optim/grad_scaler.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/schedule.h"
#include "core/engine/precision/autocast.h"

namespace accel::engine {

// All that one rank trains with, ready for the next step.
class Session {
 public:
  // Tells the user something; `subject` as in accel.v1.Warning.
  using Warn = std::function<void(const std::string& subject, const std::string& message)>;

  // Loads data, builds the model as a script does that calls set_seed(seed) first, connects the
  // ranks and, where `start` says so, restores a checkpoint. `stopped` is polled between the
  // phases; where it is true the result is CANCELLED. Errors carry their cause.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      const accel::internal::v1::StartAttempt& start, const std::function<bool()>& stopped,
      const Warn& warn);

  const accel::v1::JobSpec& spec() const { return start_.spec(); }
  const accel::v1::AcceleratorConfig& accelerator() const { return start_.resolved_accelerator(); }
  const LoopPlan& plan() const { return plan_; }
  at::Device device() const { return device_; }
  Communicator& communicator() { return *communicator_; }
  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  Schedule& schedule() { return *schedule_; }
  DataLoader& train_loader() { return data_.train_loader(); }
  // Null where the job evaluates nothing.
  DataLoader* evaluation_loader() { return data_.evaluation_loader(); }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  int64_t num_parameters() const;

  // Where training stands; the loop moves it on.
  Position& position() { return position_; }
  EarlyStopping& early_stopping() { return early_stopping_; }
  // Null where ranks do not train apart.
  LocalSgd* local_sgd() { return local_sgd_.has_value() ? &*local_sgd_ : nullptr; }

  // Whether the next forward and backward passes reduce gradients over the ranks, as they do at
  // first, or only add to this rank's.
  void SetReduceGradients(bool reduce);

  // Adds the gradients of a part of the step's loss, of the scaled loss where the job scales it.
  void Backward(const at::Tensor& loss);

  // Undoes the loss's scale in the gradients, so that they can be looked at and clipped. At most
  // once before each StepOptimizer.
  void UnscaleGradients();

  // The optimizer's step; false where it was skipped because gradients overflowed.
  bool StepOptimizer();

  // Whether the loss is scaled; then `scaler` says how it goes.
  bool scales_loss() const { return scaler_.has_value() && scaler_->enabled(); }
  const GradScaler& scaler() const { return *scaler_; }

  // Gives the optimizer what the schedule says for the next step.
  void ApplySchedule();

  // The model's output in training mode, with the gradients' reduction prepared.
  at::Tensor Forward(const at::Tensor& features);

  // The model's output between BeginEvaluation and EndEvaluation.
  at::Tensor EvaluationForward(const at::Tensor& features);

  // Puts the model in evaluation mode with rank 0's buffers, and with the means of its parameters
  // where ranks train apart; and back. Every rank calls them.
  void BeginEvaluation();
  void EndEvaluation();

  // Adds a part of training with files of its own to every checkpoint. Where the job resumes, it is
  // restored at once; errors of that carry their cause.
  absl::Status AddSection(StateSection section);

  // Writes a checkpoint of the present state; its manifest names `epoch`. Every rank calls it.
  absl::StatusOr<Checkpointer::Result> SaveCheckpoint(int64_t epoch);

 private:
  explicit Session(const accel::internal::v1::StartAttempt& start) : start_(start) {}

  absl::Status OpenDevice();
  absl::Status CreateModel();
  absl::Status CheckData(const std::vector<int64_t>& output_shape) const;
  absl::Status PlanLoop(const Warn& warn);
  absl::Status CreateOptimizer();
  void CreateScaler();
  absl::Status AddPrecisionSections();
  absl::Status AddLoopSections();
  absl::Status Restore(TrainerState* restored);
  // Each machine resumes from a checkpoint of its own folder: all must be of one step.
  absl::Status CheckSamePosition();
  absl::Status CheckRestored(const TrainerState& state) const;
  absl::Status Replicate(const TrainerState& restored, const Warn& warn);
  // Registers the hook that the job asks for, with what it remembers in the checkpoint.
  absl::Status RegisterCommHook(const TrainerState& restored, const Warn& warn);
  absl::Status RestoreRandomStates();
  bool keeps_own_buffers() const;

  const accel::internal::v1::StartAttempt start_;
  const CudaModule* cuda_ = nullptr;
  at::Device device_ = at::kCPU;
  Autocast autocast_;
  JobData data_;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<Model> model_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<DistributedDataParallel> ddp_;
  // What the communication hook remembers; null where it remembers nothing.
  std::shared_ptr<PowerSgdState> hook_state_;
  LoopPlan plan_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Schedule> schedule_;
  // Absent where mixed_precision is not fp16.
  std::optional<GradScaler> scaler_;
  std::optional<Checkpointer> checkpointer_;
  std::vector<StateSection> sections_;
  // Of the checkpoint that was restored.
  int64_t restored_world_size_ = 1;
  Position position_;
  EarlyStopping early_stopping_;
  std::optional<LocalSgd> local_sgd_;
  // While an evaluation or a checkpoint needs the means of ranks that train apart.
  std::optional<LocalSgd::Averaged> averaged_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_SESSION_H_
