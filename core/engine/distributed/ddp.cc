#include "core/engine/distributed/ddp.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>

namespace accel::engine {
namespace {

using accel::v1::DistributedDataParallelKwargs;

constexpr int64_t kBroadcastChunkBytes = 250 << 20;
constexpr int64_t kMiB = 1 << 20;
constexpr int32_t kDefaultBucketCapMb = 25;

// Sizes in bytes; see `_BucketCapacityConfig` in torch/nn/parallel/distributed.py.
struct BucketCaps {
  explicit BucketCaps(int32_t bucket_cap_mb)
      : cap(bucket_cap_mb * kMiB),
        // Accelerate does not pass the default on, and torch makes only its own default's first
        // bucket smaller.
        first(bucket_cap_mb == kDefaultBucketCapMb ? c10d::kDefaultFirstBucketBytes : cap) {}

  // Limits for the first iteration's buckets. One bucket where a rebuild follows, since the order
  // of gradients is not known yet.
  std::vector<size_t> InitialLimits(bool rebuilt_later) const {
    if (rebuilt_later) return {std::numeric_limits<size_t>::max()};
    if (first < cap) return {static_cast<size_t>(first), static_cast<size_t>(cap)};
    return {static_cast<size_t>(cap)};
  }

  const int64_t cap;
  const int64_t first;
};

std::vector<at::Tensor> TrainableParameters(const Model& model) {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameters.push_back(parameter);
  }
  return parameters;
}

std::unordered_map<size_t, std::string> ParameterNames(const Model& model) {
  std::unordered_map<size_t, std::string> names;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) names.emplace(names.size(), item.key());
  }
  return names;
}

// Passes a tensor through. Where the graph is static, the first backward pass must not reduce
// before it has ended, since only then it is known how often each parameter takes part; where
// unused parameters are looked for, an output that the loss does not use keeps an undefined
// gradient.
struct Sink : torch::autograd::Function<Sink> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            int64_t delayed_reducer) {
    context->set_materialize_grads(false);
    context->saved_data["delayed_reducer"] = delayed_reducer;
    return input.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* reducer =
        reinterpret_cast<c10d::Reducer*>(context->saved_data["delayed_reducer"].toInt());
    if (reducer != nullptr) {
      torch::autograd::Engine::get_default_engine().queue_callback(
          [reducer] { reducer->delay_all_reduce(); });
    }
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

class DistributedDataParallel::Impl {
 public:
  Impl(const Model& model, const DistributedDataParallelKwargs& kwargs, Communicator& communicator,
       BucketIndices initial_buckets)
      : group_(communicator.group()), parameters_(TrainableParameters(model)) {
    for (const at::Tensor& buffer : model.buffers()) buffers_.push_back(buffer);
    c10d::verify_params_across_processes(group_, parameters_, std::nullopt);
    BroadcastInitialState(model, kwargs.broadcast_buffers());
    BuildReducer(model, kwargs, std::move(initial_buckets));
  }

  c10d::Reducer& reducer() { return *reducer_; }
  c10d::Logger& logger() { return *logger_; }
  bool has_buffers() const { return !buffers_.empty(); }

  void BroadcastBuffers() {
    c10d::broadcast_coalesced(group_, buffers_, kBroadcastChunkBytes, /*rank=*/0);
  }

  // The reducer whose all-reduce the next backward pass delays, or null. Non-null once.
  c10d::Reducer* TakeDelayedReducer(bool static_graph) {
    if (!static_graph || delay_queued_) return nullptr;
    delay_queued_ = true;
    return reducer_.get();
  }

 private:
  void BroadcastInitialState(const Model& model, bool with_buffers) {
    std::vector<at::Tensor> state;
    for (const at::Tensor& parameter : model.parameters()) state.push_back(parameter.detach());
    if (with_buffers) state.insert(state.end(), buffers_.begin(), buffers_.end());
    c10d::broadcast_coalesced(group_, state, kBroadcastChunkBytes, /*rank=*/0);
  }

  void BuildReducer(const Model& model, const DistributedDataParallelKwargs& kwargs,
                    BucketIndices buckets) {
    const BucketCaps caps(kwargs.bucket_cap_mb());
    const std::vector<bool> sparse(parameters_.size(), false);
    if (buckets.empty()) {
      const bool rebuilt_later = kwargs.static_graph() || !kwargs.find_unused_parameters();
      buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
          parameters_, caps.InitialLimits(rebuilt_later), sparse));
      // Gradients come in about the reverse order of their parameters.
      std::reverse(buckets.begin(), buckets.end());
    }
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters_, std::move(buckets), group_, sparse, caps.cap, kwargs.find_unused_parameters(),
        kwargs.gradient_as_bucket_view(), ParameterNames(model), caps.first,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        /*bucket_bytes_cap_list=*/std::vector<int64_t>{});
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    reducer_->set_logger(logger_);
    logger_->set_construction_data_and_log(model.name(), /*device_ids=*/{}, /*output_device=*/-1,
                                           kwargs.broadcast_buffers(), /*has_sync_bn=*/false,
                                           kwargs.static_graph());
    if (kwargs.static_graph()) {
      reducer_->set_static_graph();
      logger_->set_static_graph();
    }
  }

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  bool delay_queued_ = false;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;  // ends before the reducer, which it refers to
};

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<Model> model,
                                                 const DistributedDataParallelKwargs& kwargs,
                                                 Communicator& communicator,
                                                 BucketIndices initial_buckets)
    : model_(std::move(model)),
      broadcast_buffers_(kwargs.broadcast_buffers()),
      find_unused_parameters_(kwargs.find_unused_parameters()),
      static_graph_(kwargs.static_graph()),
      impl_(std::make_unique<Impl>(*model_, kwargs, communicator, std::move(initial_buckets))) {}

DistributedDataParallel::~DistributedDataParallel() = default;

at::Tensor DistributedDataParallel::Forward(const at::Tensor& input) {
  const bool gradients = at::GradMode::is_enabled();
  const bool reduce = gradients && require_backward_grad_sync_;
  c10d::Reducer& reducer = impl_->reducer();
  if (reduce) reducer.prepare_for_forward();
  if (gradients) reducer.rebuild_buckets();
  SyncBuffers();
  at::Tensor output = model_->forward(input);
  require_forward_param_sync_ = reduce;
  const bool look_for_unused = find_unused_parameters_ && !static_graph_;
  if (reduce) {
    reducer.prepare_for_backward(look_for_unused ? std::vector<at::Tensor>{output}
                                                 : std::vector<at::Tensor>{});
  }
  if (!gradients) return output;
  c10d::Reducer* delayed = impl_->TakeDelayedReducer(static_graph_);
  if (!look_for_unused && delayed == nullptr) return output;
  return Sink::apply(output, reinterpret_cast<int64_t>(delayed));
}

void DistributedDataParallel::SyncBuffersForEvaluation() {
  SyncBuffers();
  require_forward_param_sync_ = false;
}

void DistributedDataParallel::SyncBuffers() {
  if (!require_forward_param_sync_ || !broadcast_buffers_ || !impl_->has_buffers()) return;
  at::NoGradGuard no_grad;
  impl_->BroadcastBuffers();
}

void DistributedDataParallel::RegisterCommHook(std::unique_ptr<c10d::CommHookInterface> hook) {
  impl_->reducer().register_comm_hook(std::move(hook));
}

BucketIndices DistributedDataParallel::Buckets() const {
  return impl_->logger().get_per_bucket_variable_indices();
}

std::vector<int64_t> DistributedDataParallel::BucketBytes() const {
  return impl_->logger().get_bucket_sizes();
}

}  // namespace accel::engine
