#include "core/engine/distributed/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/engine/distributed/comm_hooks.h"

namespace accel::engine {
namespace {

constexpr int64_t kMostGramSchmidtColumns = 2;

void GramSchmidt(const at::Tensor& matrices, double epsilon, bool guard) {
  const int64_t columns = matrices.size(2);
  for (int64_t i = 0; i < columns; ++i) {
    at::Tensor column = matrices.narrow(2, i, 1);
    const at::Tensor norm = at::linalg_vector_norm(column, 2, at::IntArrayRef{1}, true);
    if (epsilon != 0) {
      column.div_(norm + epsilon);
    } else {
      column.div_(norm);
      if (guard) column.masked_fill_(norm == 0, 0);
    }
    if (i + 1 == columns) return;
    at::Tensor rest = matrices.narrow(2, i + 1, columns - i - 1);
    rest.sub_(at::sum(column * rest, at::IntArrayRef{1}, true) * column);
  }
}

// Standard normal numbers, one after the other from one generator on the CPU.
class Normals {
 public:
  explicit Normals(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

  void Fill(const at::Tensor& tensor) {
    tensor.copy_(at::randn(tensor.sizes(), generator_,
                           at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU)));
  }

 private:
  at::Generator generator_;
};

// Gradients of one shape and their factors.
struct Group {
  std::vector<at::Tensor> gradients;  // views of the bucket, n x m
  at::Tensor matrices;                // B x n x m; a view of the bucket where B is 1
  at::Tensor p;                       // B x n x r
  at::Tensor q;                       // B x m x r
};

// A bucket's gradients: those to compress and the others.
struct Parts {
  std::vector<Group> groups;
  std::vector<at::Tensor> uncompressed;
};

at::Tensor AsMatrix(const at::Tensor& gradient) {
  return gradient.view({gradient.dim() == 0 ? 1 : gradient.size(0), -1});
}

int64_t RankOf(const at::Tensor& matrix, const PowerSgdState::Options& options) {
  return std::min<int64_t>({matrix.size(-2), matrix.size(-1), options.matrix_approximation_rank()});
}

// Matrices of one shape come together, shapes in order of their first matrix.
void AddByShape(const at::Tensor& matrix, std::vector<std::vector<at::Tensor>>* by_shape) {
  for (auto& same : *by_shape) {
    if (same.front().sizes() == matrix.sizes()) {
      same.push_back(matrix);
      return;
    }
  }
  by_shape->push_back({matrix});
}

Parts Split(const std::vector<at::Tensor>& gradients, PowerSgdState& state) {
  const PowerSgdState::Options& options = state.options();
  Parts parts;
  std::vector<std::vector<at::Tensor>> by_shape;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor matrix = AsMatrix(gradient);
    const int64_t compressed = (matrix.size(0) + matrix.size(1)) * RankOf(matrix, options);
    const bool compress = compressed * options.min_compression_rate() < matrix.numel();
    state.Count(matrix.numel(), compress ? compressed : matrix.numel());
    if (compress) {
      AddByShape(matrix, &by_shape);
    } else {
      parts.uncompressed.push_back(gradient);
    }
  }
  for (auto& same : by_shape) {
    if (options.batch_tensors_with_same_shape() && same.size() > 1) {
      parts.groups.push_back({.gradients = same, .matrices = at::stack(same), .p = {}, .q = {}});
      continue;
    }
    for (const at::Tensor& matrix : same) {
      parts.groups.push_back(
          {.gradients = {matrix}, .matrices = matrix.unsqueeze(0), .p = {}, .q = {}});
    }
  }
  return parts;
}

// Sizes of all P and of all Q.
std::pair<int64_t, int64_t> FactorSizes(const std::vector<Group>& groups,
                                        const PowerSgdState::Options& options) {
  int64_t p = 0;
  int64_t q = 0;
  for (const Group& group : groups) {
    const int64_t columns = group.matrices.size(0) * RankOf(group.matrices, options);
    p += group.matrices.size(1) * columns;
    q += group.matrices.size(2) * columns;
  }
  return {p, q};
}

// Makes the groups' factors views of the flat ones.
void PlaceFactors(const at::Tensor& flat_p, const at::Tensor& flat_q,
                  const PowerSgdState::Options& options, std::vector<Group>* groups) {
  int64_t p = 0;
  int64_t q = 0;
  for (Group& group : *groups) {
    const int64_t batch = group.matrices.size(0);
    const int64_t rows = group.matrices.size(1);
    const int64_t columns = group.matrices.size(2);
    const int64_t rank = RankOf(group.matrices, options);
    group.p = flat_p.narrow(0, p, batch * rows * rank).view({batch, rows, rank});
    group.q = flat_q.narrow(0, q, batch * columns * rank).view({batch, columns, rank});
    p += group.p.numel();
    q += group.q.numel();
  }
}

at::Tensor Flatten(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.view(-1));
  return at::cat(flat);
}

void Unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, offset, tensor.numel()).view_as(tensor));
    offset += tensor.numel();
  }
}

// Error feedback around the compression of one `buffer`.
class ErrorFeedback {
 public:
  // Adds the remembered error, one of this length only: buckets are rebuilt once after a start.
  ErrorFeedback(bool enabled, const at::Tensor& buffer, at::Tensor* error)
      : enabled_(enabled), buffer_(buffer), error_(error) {
    if (!enabled_) return;
    if (error_->defined() && error_->sizes() == buffer_.sizes()) buffer_.add_(*error_);
    original_ = buffer_.clone();
  }

  // Remembers what the buffer has lost meanwhile.
  void Remember() {
    if (enabled_) *error_ = original_ - buffer_;
  }

 private:
  const bool enabled_;
  const at::Tensor buffer_;
  at::Tensor* const error_;
  at::Tensor original_;
};

}  // namespace

void Orthogonalize(const at::Tensor& matrices, double epsilon, bool guard) {
  const int64_t rows = matrices.size(1);
  const int64_t columns = matrices.size(2);
  TORCH_CHECK(columns <= rows, "matrix_approximation_rank ", columns,
              " is above the side of the gradients' square matrix, ", rows);
  const at::ScalarType dtype = matrices.scalar_type();
  if (columns <= kMostGramSchmidtColumns || dtype == at::kHalf || dtype == at::kBFloat16) {
    GramSchmidt(matrices, epsilon, guard);
    return;
  }
  at::Tensor q = matrices;
  at::Tensor r = at::empty({matrices.size(0), columns, columns}, matrices.options());
  at::linalg_qr_out(q, r, matrices);
}

c10::intrusive_ptr<c10::ivalue::Future> PowerSgdHookBase::runHook(c10d::GradBucket& bucket) {
  at::NoGradGuard no_grad;
  const at::Tensor buffer = bucket.getBuffer();
  if (state_->starting()) {
    state_->EndBucket(bucket.isLast());
    return engine::AllReduceMean(*group_, buffer);
  }
  Compress(bucket);
  state_->EndBucket(bucket.isLast());
  std::vector<c10::Device> devices;
  if (buffer.is_cuda()) devices.push_back(buffer.device());
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::move(devices));
  future->markCompleted(buffer);
  return future;
}

void PowerSgdHookBase::AllReduceSum(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  group_->allreduce(tensors)->wait();
}

void PowerSgdHookBase::AllReduceMean(const at::Tensor& tensor) {
  AllReduceSum(tensor);
  tensor.div_(world_size());
}

void PowerSgdHook::Compress(c10d::GradBucket& bucket) {
  const PowerSgdState::Options& options = state_->options();
  const at::Tensor buffer = bucket.getBuffer();
  PowerSgdState::Memory& memory = state_->MemoryOf(bucket.getIndex());
  ErrorFeedback feedback(options.use_error_feedback(), buffer, &memory.error);

  Parts parts = Split(bucket.getGradients(), *state_);
  state_->ReportStatistics(bucket.isLast());
  const auto [p_size, q_size] = FactorSizes(parts.groups, options);
  const at::Tensor p = at::empty({p_size}, buffer.options());
  const bool warm =
      options.warm_start() && memory.q.defined() && memory.q.sizes() == at::IntArrayRef{q_size};
  const at::Tensor q = warm ? memory.q : at::empty({q_size}, buffer.options());
  PlaceFactors(p, q, options, &parts.groups);
  if (!warm) {
    Normals normals(state_->NextSeed());
    for (const Group& group : parts.groups) normals.Fill(group.q);
  }

  const double epsilon = options.orthogonalization_epsilon();
  const bool guard = options.zero_gradient_guard();
  for (Group& group : parts.groups) {
    Orthogonalize(group.q, epsilon, guard);
    at::bmm_out(group.p, group.matrices, group.q);
  }
  if (!parts.uncompressed.empty()) {
    const at::Tensor flat = Flatten(parts.uncompressed);
    AllReduceMean(flat);
    Unflatten(flat, parts.uncompressed);
  }
  if (!parts.groups.empty()) {
    AllReduceSum(p);
    for (Group& group : parts.groups) {
      Orthogonalize(group.p, epsilon, guard);
      at::bmm_out(group.q, group.matrices.transpose(1, 2), group.p);
    }
    AllReduceMean(q);
  }
  for (Group& group : parts.groups) {
    at::bmm_out(group.matrices, group.p, group.q.transpose(1, 2));
    if (group.gradients.size() == 1) continue;
    for (size_t i = 0; i < group.gradients.size(); ++i) {
      group.gradients[i].copy_(group.matrices[static_cast<int64_t>(i)]);
    }
  }
  feedback.Remember();
  if (options.warm_start()) memory.q = q;
}

void BatchedPowerSgdHook::Compress(c10d::GradBucket& bucket) {
  const PowerSgdState::Options& options = state_->options();
  const at::Tensor buffer = bucket.getBuffer();
  PowerSgdState::Memory& memory = state_->MemoryOf(bucket.getIndex());
  const int64_t length = buffer.numel();
  const int64_t side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
  const int64_t rank = options.matrix_approximation_rank();
  state_->Count(length, 2 * side * rank);
  state_->ReportStatistics(bucket.isLast());

  const at::Tensor padded = at::zeros({side * side}, buffer.options());
  padded.narrow(0, 0, length).copy_(buffer);
  ErrorFeedback feedback(options.use_error_feedback(), padded, &memory.error);
  at::Tensor matrix = padded.view({side, side});

  at::Tensor p = at::empty({side, rank}, buffer.options());
  const bool warm =
      options.warm_start() && memory.q.defined() && memory.q.sizes() == at::IntArrayRef{side, rank};
  at::Tensor q = warm ? memory.q : at::empty({side, rank}, buffer.options());
  if (!warm) Normals(state_->NextSeed()).Fill(q);
  Orthogonalize(q.unsqueeze(0), 0, options.zero_gradient_guard());
  at::matmul_out(p, matrix, q);
  AllReduceSum(p);
  Orthogonalize(p.unsqueeze(0), 0, options.zero_gradient_guard());
  at::matmul_out(q, matrix.t(), p);
  AllReduceMean(q);
  at::matmul_out(matrix, p, q.t());
  feedback.Remember();
  if (options.warm_start()) memory.q = q;
  buffer.copy_(padded.narrow(0, 0, length));
}

}  // namespace accel::engine
