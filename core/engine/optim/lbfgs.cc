#include "core/engine/optim/lbfgs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

constexpr double kLeastCurvature = 1e-10;

at::Tensor Integer(int64_t value) { return at::scalar_tensor(value, at::TensorOptions(at::kLong)); }

// A Python float in double precision, a tensor in its own.
at::Tensor ToTensor(Real value) {
  return at::scalar_tensor(value.value(),
                           at::TensorOptions(value.is_tensor() ? at::kFloat : at::kDouble));
}

Real ToReal(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return Real::Tensor(tensor.item<float>());
  return tensor.item<double>();
}

std::vector<at::Tensor> AsVector(const std::deque<at::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

std::deque<at::Tensor> AsDeque(const at::Tensor& rows) {
  std::deque<at::Tensor> tensors;
  for (int64_t i = 0; i < rows.size(0); ++i) tensors.push_back(rows[i].clone());
  return tensors;
}

// Takes a saved state apart; the first thing that does not fit is what Finish says.
class StateReader {
 public:
  StateReader(const std::map<std::string, at::Tensor>& state, at::Device device)
      : state_(state), device_(device) {}

  // Rows of a slot; 0 where there is none.
  int64_t Rows(const std::string& slot) const {
    const auto found = state_.find(Key(slot));
    return found == state_.end() || found->second.dim() == 0 ? 0 : found->second.size(0);
  }

  // A copy of the slot's tensor; zeros where it does not fit. Scalars are on the CPU.
  at::Tensor Take(const std::string& slot, const std::vector<int64_t>& shape) {
    const auto found = state_.find(Key(slot));
    const bool fits = found != state_.end() && found->second.sizes() == at::IntArrayRef(shape);
    if (!fits) {
      if (status_.ok()) {
        status_ = absl::InvalidArgumentError(absl::StrCat(
            "optimizer state ", Key(slot),
            found == state_.end()
                ? " is missing"
                : absl::StrCat(" has shape [", absl::StrJoin(found->second.sizes(), ", "), "]"),
            ", allowed is [", absl::StrJoin(shape, ", "), "]"));
      }
      return at::zeros(shape, at::TensorOptions(at::kDouble));
    }
    ++used_;
    return found->second.to(shape.size() < 1 ? at::kCPU : device_, /*non_blocking=*/false,
                            /*copy=*/true);
  }

  absl::Status Finish() const {
    if (!status_.ok() || used_ == state_.size()) return status_;
    return absl::InvalidArgumentError(absl::StrCat("optimizer state has ", state_.size(),
                                                   " tensors, lbfgs knows ", used_, " of them"));
  }

 private:
  static std::string Key(const std::string& slot) { return absl::StrCat("all.", slot); }

  const std::map<std::string, at::Tensor>& state_;
  const at::Device device_;
  size_t used_ = 0;
  absl::Status status_;
};

}  // namespace

LbfgsOptimizer::LbfgsOptimizer(const accel::v1::Lbfgs& spec, std::vector<NamedParameter> parameters)
    : Optimizer(spec.has_lr() ? spec.lr() : 1),
      parameters_(std::move(parameters)),
      max_iterations_(spec.has_max_iter() ? spec.max_iter() : 20),
      max_evaluations_(spec.has_max_eval() ? spec.max_eval() : max_iterations_ * 5 / 4),
      tolerance_gradient_(spec.has_tolerance_grad() ? spec.tolerance_grad() : 1e-7),
      tolerance_change_(spec.has_tolerance_change() ? spec.tolerance_change() : 1e-9),
      history_size_(spec.has_history_size() ? static_cast<size_t>(spec.history_size()) : 100),
      searches_line_(spec.has_line_search_fn()),
      maximize_(spec.maximize()) {}

void LbfgsOptimizer::Update(const GradientScale& /*scale*/) {
  TORCH_CHECK(false, "lbfgs steps with a closure only");
}

void LbfgsOptimizer::ZeroGrad() {
  for (const NamedParameter& parameter : parameters_) {
    at::Tensor tensor = parameter.tensor;
    tensor.mutable_grad() = at::Tensor();
  }
}

Evaluation LbfgsOptimizer::Evaluate(const Closure& closure) const {
  Evaluation evaluation;
  {
    at::AutoGradMode with_graph(true);
    evaluation.loss = closure();
  }
  if (maximize_) evaluation.loss = -evaluation.loss;
  evaluation.gradient = FlatGradient();
  return evaluation;
}

at::Tensor LbfgsOptimizer::FlatGradient() const {
  std::vector<at::Tensor> flat;
  for (const NamedParameter& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    flat.push_back(gradient.defined()
                       ? gradient.view(-1)
                       : at::zeros({parameter.tensor.numel()}, parameter.tensor.options()));
  }
  at::Tensor all = at::cat(flat);
  return maximize_ ? all.neg_() : all;
}

void LbfgsOptimizer::Move(Real length, const at::Tensor& direction) const {
  int64_t offset = 0;
  for (const NamedParameter& parameter : parameters_) {
    const at::Tensor part = direction.narrow(0, offset, parameter.tensor.numel());
    at::Tensor tensor = parameter.tensor;
    tensor.add_(part.view_as(tensor), length.value());
    offset += tensor.numel();
  }
}

void LbfgsOptimizer::StepWith(const Closure& closure) {
  at::NoGradGuard no_grad;
  Evaluation point = Evaluate(closure);
  ++memory_.evaluations;
  if (LargestMagnitude(point.gradient) <= tolerance_gradient_) return;
  int64_t evaluations = 1;
  for (int64_t i = 1; i <= max_iterations_; ++i) {
    if (!Iterate(closure, i == max_iterations_, &point, &evaluations)) return;
  }
}

bool LbfgsOptimizer::Iterate(const Closure& closure, bool last, Evaluation* point,
                             int64_t* evaluations) {
  TurnDirection(point->gradient);
  const at::Tensor& direction = memory_.direction;
  const double loss_before = point->loss;
  memory_.length = learning_rate();
  if (memory_.iterations == 1) {
    const Real sum = Real::Tensor(at::sum(point->gradient.abs()).item<float>());
    memory_.length = Min(1, Real(1) / sum) * learning_rate();
  }
  const Real slope = Dot(point->gradient, direction);
  if (slope > -tolerance_change_) return false;

  int64_t made = 0;
  if (searches_line_) {
    made = SearchLine(closure, slope, max_evaluations_ - *evaluations, point);
  } else {
    Move(memory_.length, direction);
    if (!last) {
      *point = Evaluate(closure);
      made = 1;
    }
  }
  *evaluations += made;
  memory_.evaluations += made;
  if (last || *evaluations >= max_evaluations_) return false;
  if (LargestMagnitude(point->gradient) <= tolerance_gradient_) return false;
  if (LargestMagnitude(at::mul(direction, memory_.length.value())) <= tolerance_change_) {
    return false;
  }
  return !(std::abs(point->loss - loss_before) < tolerance_change_);
}

void LbfgsOptimizer::TurnDirection(const at::Tensor& gradient) {
  ++memory_.iterations;
  if (memory_.iterations == 1) {
    memory_.direction = gradient.neg();
  } else {
    RememberStep(gradient);
    memory_.direction = QuasiNewtonDirection(gradient);
  }
  memory_.gradient = gradient;
}

void LbfgsOptimizer::ForgetOldest(Memory* memory) {
  memory->gradient_changes.pop_front();
  memory->steps.pop_front();
  memory->reciprocals.pop_front();
}

void LbfgsOptimizer::RememberStep(const at::Tensor& gradient) {
  const at::Tensor change = gradient.sub(memory_.gradient);
  const at::Tensor step = at::mul(memory_.direction, memory_.length.value());
  const Real product = Dot(change, step);
  if (!(product > kLeastCurvature)) return;
  if (memory_.steps.size() == history_size_) ForgetOldest(&memory_);
  memory_.gradient_changes.push_back(change);
  memory_.steps.push_back(step);
  memory_.reciprocals.push_back(Real(1) / product);
  memory_.scale = product / Dot(change, change);
}

// The two-loop recursion.
at::Tensor LbfgsOptimizer::QuasiNewtonDirection(const at::Tensor& gradient) const {
  const size_t count = memory_.steps.size();
  std::vector<Real> factors(count);
  at::Tensor q = gradient.neg();
  for (size_t i = count; i-- > 0;) {
    factors[i] = Dot(memory_.steps[i], q) * memory_.reciprocals[i];
    q.add_(memory_.gradient_changes[i], (-factors[i]).value());
  }
  at::Tensor direction = at::mul(q, memory_.scale.value());
  for (size_t i = 0; i < count; ++i) {
    const Real factor = Dot(memory_.gradient_changes[i], direction) * memory_.reciprocals[i];
    direction.add_(memory_.steps[i], (factors[i] - factor).value());
  }
  return direction;
}

int64_t LbfgsOptimizer::SearchLine(const Closure& closure, Real slope, int64_t most_further,
                                   Evaluation* point) {
  std::vector<at::Tensor> start;
  for (const NamedParameter& parameter : parameters_) start.push_back(parameter.tensor.clone());
  const auto evaluate = [&](Real length) {
    Move(length, memory_.direction);
    Evaluation evaluation = Evaluate(closure);
    for (size_t i = 0; i < start.size(); ++i) {
      at::Tensor tensor = parameters_[i].tensor;
      tensor.copy_(start[i]);
    }
    return evaluation;
  };
  LineSearchResult result = SearchStrongWolfe(evaluate, memory_.direction, {0, *point, slope},
                                              memory_.length, tolerance_change_, most_further);
  memory_.length = result.point.length;
  *point = std::move(result.point.evaluation);
  Move(memory_.length, memory_.direction);
  return result.evaluations;
}

std::map<std::string, at::Tensor> LbfgsOptimizer::State() const {
  std::map<std::string, at::Tensor> state;
  if (memory_.evaluations == 0) return state;
  state["all.func_evals"] = Integer(memory_.evaluations);
  state["all.n_iter"] = Integer(memory_.iterations);
  if (memory_.iterations == 0) return state;
  state["all.d"] = memory_.direction;
  state["all.t"] = ToTensor(memory_.length);
  state["all.prev_flat_grad"] = memory_.gradient;
  state["all.H_diag"] = ToTensor(memory_.scale);
  if (memory_.steps.empty()) return state;
  state["all.old_dirs"] = at::stack(AsVector(memory_.gradient_changes));
  state["all.old_stps"] = at::stack(AsVector(memory_.steps));
  std::vector<at::Tensor> reciprocals;
  for (Real value : memory_.reciprocals) reciprocals.push_back(ToTensor(value));
  state["all.ro"] = at::stack(reciprocals);
  return state;
}

absl::Status LbfgsOptimizer::LoadState(const std::map<std::string, at::Tensor>& state) {
  StateReader reader(state, parameters_.front().tensor.device());
  int64_t size = 0;
  for (const NamedParameter& parameter : parameters_) size += parameter.tensor.numel();
  Memory memory;
  if (!state.empty()) {
    memory.evaluations = reader.Take("func_evals", {}).item<int64_t>();
    memory.iterations = reader.Take("n_iter", {}).item<int64_t>();
  }
  if (memory.iterations > 0) {
    memory.direction = reader.Take("d", {size});
    memory.length = ToReal(reader.Take("t", {}));
    memory.gradient = reader.Take("prev_flat_grad", {size});
    memory.scale = ToReal(reader.Take("H_diag", {}));
  }
  if (const int64_t count = reader.Rows("ro"); count > 0) {
    memory.gradient_changes = AsDeque(reader.Take("old_dirs", {count, size}));
    memory.steps = AsDeque(reader.Take("old_stps", {count, size}));
    for (const at::Tensor& value : AsDeque(reader.Take("ro", {count}))) {
      memory.reciprocals.push_back(ToReal(value));
    }
  }
  ACCEL_RETURN_IF_ERROR(reader.Finish());
  while (memory.steps.size() > history_size_) ForgetOldest(&memory);
  memory_ = std::move(memory);
  return absl::OkStatus();
}

}  // namespace accel::engine
