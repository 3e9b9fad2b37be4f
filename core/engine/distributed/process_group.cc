#include "core/engine/distributed/process_group.h"

#include <ATen/ops/tensor.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

using accel::internal::v1::StartAttempt;
using std::chrono::milliseconds;

constexpr milliseconds kFinishTimeout{5000};

milliseconds CollectiveTimeout(const StartAttempt& start) {
  const auto& timeout = start.resolved_accelerator().init_process_group_kwargs().timeout();
  return milliseconds(timeout.seconds() * 1000 + timeout.nanos() / 1'000'000);
}

c10::intrusive_ptr<c10d::TCPStore> ConnectStore(const StartAttempt& start) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(start.store_port());
  options.isServer = start.rank() == 0;
  options.numWorkers = static_cast<size_t>(start.world_size());
  options.waitWorkers = false;
  options.timeout = CollectiveTimeout(start);
  if (options.isServer) options.masterListenFd = start.store_listen_fd();
  return c10::make_intrusive<c10d::TCPStore>(start.store_host(), options);
}

c10::intrusive_ptr<c10d::Backend> CreateGloo(const c10::intrusive_ptr<c10d::Store>& store,
                                             const StartAttempt& start) {
  auto options = c10d::ProcessGroupGloo::Options::create(CollectiveTimeout(start));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(start.store_host()));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, start.rank(), start.world_size(),
                                                     options);
}

// Adds the backends of `name`, as torch.distributed does for the same string.
absl::Status AddBackends(const std::string& name, const StartAttempt& start, at::Device device,
                         const CudaModule* cuda, const c10::intrusive_ptr<c10d::Store>& store,
                         c10d::ProcessGroup& group) {
  using BackendType = c10d::ProcessGroup::BackendType;
  const bool mixed = name == "cpu:gloo,cuda:nccl";
  if (name == "gloo" && device.is_cuda()) {
    return NotImplemented("accelerator.init_process_group_kwargs.backend=\"gloo\" with cuda");
  }
  if (name == "gloo" || mixed) {
    group.setBackend(c10::DeviceType::CPU, BackendType::GLOO, CreateGloo(store, start));
    group.setDefaultBackend(BackendType::GLOO);
  }
  if (name == "nccl" || (mixed && device.is_cuda())) {
    if (cuda == nullptr) {
      return absl::FailedPreconditionError("backend nccl needs the device cuda");
    }
    const NcclOptions options{.rank = start.rank(),
                              .world_size = start.world_size(),
                              .device = device.index(),
                              .timeout = CollectiveTimeout(start)};
    ACCEL_ASSIGN_OR_RETURN(auto nccl, cuda->CreateNcclBackend(store, options));
    group.setBackend(c10::DeviceType::CUDA, BackendType::NCCL, nccl);
    group.setDefaultBackend(BackendType::NCCL);
  }
  if (!group.hasBackends()) {
    return absl::InvalidArgumentError(
        absl::StrCat("backend is \"", name, "\", allowed are gloo, nccl and cpu:gloo,cuda:nccl"));
  }
  return absl::OkStatus();
}

class SingleRank final : public Communicator {
 public:
  SingleRank() : Communicator(0, 1) {}
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
      : Communicator(start.rank(), start.world_size()),
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
  if (kwargs.has_init_method()) {
    return NotImplemented("accelerator.init_process_group_kwargs.init_method");
  }
  return Guarded("process group", [&]() -> absl::StatusOr<std::unique_ptr<Communicator>> {
    const c10::intrusive_ptr<c10d::Store> store = ConnectStore(start);
    const auto prefix = c10::make_intrusive<c10d::PrefixStore>("accel/group", store);
    auto group = c10::make_intrusive<c10d::ProcessGroup>(prefix, start.rank(), start.world_size());
    ACCEL_RETURN_IF_ERROR(AddBackends(kwargs.backend(), start, device, cuda, prefix, *group));
    return std::make_unique<GroupCommunicator>(start, device, store, std::move(group));
  });
}

}  // namespace accel::engine
