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
#include "core/engine/data/training_data.h"
#include "core/engine/distributed/ddp.h"
#include "core/engine/distributed/local_sgd.h"
#include "core/engine/distributed/power_sgd_state.h"
#include "core/engine/distributed/process_group.h"
#include "core/engine/loop/early_stopping.h"
#include "core/engine/loop/plan.h"
#include "core/engine/model/model.h"
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
  DataLoader& train_loader() { return *train_loader_; }
  // Null where the job evaluates nothing.
  DataLoader* evaluation_loader() { return evaluation_loader_.get(); }
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

  // The model's output in training mode, with the gradients' reduction prepared.
  at::Tensor Forward(const at::Tensor& features);

  // The model's output between BeginEvaluation and EndEvaluation.
  at::Tensor EvaluationForward(const at::Tensor& features);

  // Puts the model in evaluation mode with rank 0's buffers, and with the means of its parameters
  // where ranks train apart; and back. Every rank calls them.
  void BeginEvaluation();
  void EndEvaluation();

  // Writes a checkpoint of the present state; its manifest names `epoch`. Every rank calls it.
  absl::StatusOr<Checkpointer::Result> SaveCheckpoint(int64_t epoch);

 private:
  explicit Session(const accel::internal::v1::StartAttempt& start) : start_(start) {}

  absl::Status OpenDevice();
  absl::Status LoadData();
  absl::Status CreateModel();
  absl::Status PlanLoop(const Warn& warn);
  absl::Status CreateOptimizer();
  absl::Status Restore(TrainerState* restored);
  // What checkpoints hold besides; `averaged` while the model has the mean of ranks that train
  // apart.
  std::vector<StateSection> Sections(const LocalSgd::Averaged* averaged);
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
  TrainingData data_;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<Model> model_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<DistributedDataParallel> ddp_;
  // What the communication hook remembers; null where it remembers nothing.
  std::shared_ptr<PowerSgdState> hook_state_;
  std::unique_ptr<DataLoader> train_loader_;
  std::unique_ptr<DataLoader> evaluation_loader_;
  LoopPlan plan_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Schedule> schedule_;
  std::optional<Checkpointer> checkpointer_;
  Position position_;
  EarlyStopping early_stopping_;
  std::optional<LocalSgd> local_sgd_;
  // During an evaluation.
  std::optional<LocalSgd::Averaged> averaged_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_LOOP_SESSION_H_
