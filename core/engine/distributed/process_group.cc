#include "core/engine/distributed/process_group.h"

#include <ATen/ops/tensor.h>

#include <chrono>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/config/process_group_options.h"
#include "core/engine/distributed/named_gloo.h"
#include "core/engine/distributed/store.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

using accel::internal::v1::StartAttempt;
using std::chrono::milliseconds;

constexpr milliseconds kFinishTimeout{5000};

c10::intrusive_ptr<c10d::Backend> CreateGloo(const c10::intrusive_ptr<c10d::Store>& store,
                                             const StartAttempt& start) {
  const std::string& address =
      start.local_address().empty() ? start.store_host() : start.local_address();
  return c10::make_intrusive<NamedGloo>(store, start.rank(), start.world_size(), address,
                                        GroupTimeout(start));
}

absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> CreateNccl(
    const c10::intrusive_ptr<c10d::Store>& store, const StartAttempt& start, at::Device device,
    const CudaModule* cuda) {
  if (cuda == nullptr) return absl::FailedPreconditionError("backend nccl needs the device cuda");
  return cuda->CreateNcclBackend(store, {.rank = start.rank(),
                                         .world_size = start.world_size(),
                                         .device = device.index(),
                                         .timeout = GroupTimeout(start)});
}

// Adds the backends, as torch.distributed does: one object for each backend, whatever the number of
// devices it serves.
absl::Status AddBackends(const std::map<std::string, std::string>& backends,
                         const StartAttempt& start, at::Device device, const CudaModule* cuda,
                         const c10::intrusive_ptr<c10d::Store>& store, c10d::ProcessGroup& group) {
  using BackendType = c10d::ProcessGroup::BackendType;
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> made;
  for (const auto& [device_name, name] : backends) {
    c10::intrusive_ptr<c10d::Backend>& backend = made[name];
    if (backend == nullptr && name == "gloo") backend = CreateGloo(store, start);
    if (backend == nullptr) {
      ACCEL_ASSIGN_OR_RETURN(backend, CreateNccl(store, start, device, cuda));
    }
    const BackendType type = name == "gloo" ? BackendType::GLOO : BackendType::NCCL;
    const bool on_cuda = device_name == "cuda";
    group.setBackend(on_cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU, type, backend);
    if (on_cuda == device.is_cuda()) group.setDefaultBackend(type);
  }
  return absl::OkStatus();
}

// A group whose supervisor does not say is all on one machine.
bool IsLocalMain(const StartAttempt& start) {
  return start.local_world_size() > 0 ? start.local_rank() == 0 : start.rank() == 0;
}

class SingleRank final : public Communicator {
 public:
  SingleRank() : Communicator(0, 1, /*local_main=*/true) {}
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const override { return group_; }
  void AllReduceSum(at::Tensor&) override {}
  int64_t Min(int64_t value) override { return value; }
  int64_t Max(int64_t value) override { return value; }
  void Barrier() override {}
  void Finish() override {}

 private:
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(const StartAttempt& start, at::Device device,
                    c10::intrusive_ptr<c10d::Store> store,
                    c10::intrusive_ptr<c10d::ProcessGroup> group)
      : Communicator(start.rank(), start.world_size(), IsLocalMain(start)),
        device_(device),
        store_(std::move(store)),
        group_(std::move(group)) {}

  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const override { return group_; }

  void AllReduceSum(at::Tensor& tensor) override { AllReduce(tensor, c10d::ReduceOp::SUM); }

  int64_t Min(int64_t value) override { return Reduced(value, c10d::ReduceOp::MIN); }

  int64_t Max(int64_t value) override { return Reduced(value, c10d::ReduceOp::MAX); }

  // By an all-reduce: c10d's own barrier picks a device by itself.
  void Barrier() override { Max(0); }

  void Finish() override {
    constexpr char kAll[] = "accel/all_finished";
    try {
      if (store_->add("accel/finished", 1) == world_size()) store_->set(kAll, std::string("1"));
      store_->wait({kAll}, kFinishTimeout);
    } catch (const std::exception&) {
      // Rank 0 has seen that all are done and took the store with it, or a peer died after its
      // work: either way this rank's work is complete.
    }
  }

 private:
  void AllReduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType operation) {
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    std::vector<at::Tensor> tensors{tensor};
    group_->allreduce(tensors, options)->wait();
  }

  int64_t Reduced(int64_t value, c10d::ReduceOp::RedOpType operation) {
    at::Tensor tensor = at::tensor({value}, at::TensorOptions(at::kLong).device(device_));
    AllReduce(tensor, operation);
    return tensor.item<int64_t>();
  }

  const at::Device device_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Connect(const StartAttempt& start,
                                                                    at::Device device,
                                                                    const CudaModule* cuda) {
  if (start.world_size() == 1) return std::make_unique<SingleRank>();
  const auto& kwargs = start.resolved_accelerator().init_process_group_kwargs();
  ACCEL_ASSIGN_OR_RETURN(const auto backends, config::ParseBackend(kwargs.backend()));
  return Guarded("process group", [&]() -> absl::StatusOr<std::unique_ptr<Communicator>> {
    const c10::intrusive_ptr<c10d::Store> store = OpenStore(start);
    const auto prefix = c10::make_intrusive<c10d::PrefixStore>("accel/group", store);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(prefix, start.rank(), start.world_size());
    ACCEL_RETURN_IF_ERROR(AddBackends(backends, start, device, cuda, prefix, *group));
    return std::make_unique<GroupCommunicator>(start, device, store, std::move(group));
  });
}

accel::v1::ProcessGroupInfo DescribeGroup(const StartAttempt& start) {
  const auto& kwargs = start.resolved_accelerator().init_process_group_kwargs();
  accel::v1::ProcessGroupInfo info;
  if (const auto backends = config::ParseBackend(kwargs.backend()); backends.ok()) {
    info.mutable_backends()->insert(backends->begin(), backends->end());
  }
  info.set_init_method(kwargs.init_method());
  info.set_store(StoreName(start));
  info.set_world_size(start.world_size());
  info.set_timeout_seconds(static_cast<double>(GroupTimeout(start).count()) / 1000);
  return info;
}

}  // namespace accel::engine
