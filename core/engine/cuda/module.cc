#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/cuda/module_api.h"

namespace accel::engine {
namespace {

// Runs `function`, which returns a Status or StatusOr, and turns what LibTorch throws into a
// Status.
template <typename Function>
auto Guarded(absl::string_view what, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

absl::Status CudaError(absl::string_view what, cudaError_t error) {
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

c10::CachingDeviceAllocator::Stat Aggregate(const c10::CachingDeviceAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

class CudaModuleImpl final : public CudaModule {
 public:
  absl::StatusOr<int> DeviceCount() const override {
    int count = 0;
    const cudaError_t error = c10::cuda::GetDeviceCount(&count);
    if (error == cudaSuccess) return count;
    cudaGetLastError();  // otherwise the next call into the runtime would report it again
    if (error == cudaErrorNoDevice) return 0;
    return absl::FailedPreconditionError(
        absl::StrCat("no usable cuda driver: ", cudaGetErrorString(error)));
  }

  absl::Status SetDevice(int device) const override {
    return Guarded("set cuda device", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(Initialize(device));
      c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
      return absl::OkStatus();
    });
  }

  absl::Status Synchronize(int device) const override {
    return Guarded("synchronize cuda device", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(Initialize(device));
      const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
      c10::cuda::device_synchronize();
      return absl::OkStatus();
    });
  }

  absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> CreateNcclBackend(
      const c10::intrusive_ptr<c10d::Store>& store, const NcclOptions& options) const override {
    using Result = absl::StatusOr<c10::intrusive_ptr<c10d::Backend>>;
    return Guarded("create nccl backend", [&]() -> Result {
      ACCEL_RETURN_IF_ERROR(Initialize(options.device));
      auto nccl = c10d::ProcessGroupNCCL::Options::create(options.high_priority_stream);
      nccl->timeout = options.timeout;
      auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, options.rank,
                                                                 options.world_size, nccl);
      backend->setBoundDeviceId(
          c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(options.device)));
      return c10::intrusive_ptr<c10d::Backend>(std::move(backend));
    });
  }

  absl::StatusOr<CudaMemory> Memory(int device) const override {
    return Guarded("read cuda memory", [&]() -> absl::StatusOr<CudaMemory> {
      ACCEL_RETURN_IF_ERROR(Initialize(device));
      const auto index = static_cast<c10::DeviceIndex>(device);
      const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
      const auto allocated = Aggregate(stats.allocated_bytes);
      const auto reserved = Aggregate(stats.reserved_bytes);
      const c10::cuda::CUDAGuard guard(index);
      size_t free = 0;
      size_t total = 0;
      if (const cudaError_t error = cudaMemGetInfo(&free, &total); error != cudaSuccess) {
        return CudaError("read cuda memory", error);
      }
      return CudaMemory{.allocated_bytes = allocated.current,
                        .reserved_bytes = reserved.current,
                        .max_allocated_bytes = allocated.peak,
                        .max_reserved_bytes = reserved.peak,
                        .free_bytes = static_cast<int64_t>(free),
                        .total_bytes = static_cast<int64_t>(total)};
    });
  }

  absl::Status ResetPeakMemory(int device) const override {
    return Guarded("reset cuda memory peak", [&]() -> absl::Status {
      ACCEL_RETURN_IF_ERROR(Initialize(device));
      c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
      return absl::OkStatus();
    });
  }

 private:
  // Checks `device` and sets up LibTorch's allocator, which has no figures before that.
  absl::Status Initialize(int device) const {
    ACCEL_ASSIGN_OR_RETURN(const int count, DeviceCount());
    if (count == 0) return absl::FailedPreconditionError("no cuda device on this machine");
    if (device < 0 || device >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("cuda device ", device, " does not exist, allowed are 0 to ", count - 1));
    }
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    return absl::OkStatus();
  }
};

}  // namespace
}  // namespace accel::engine

extern "C" __attribute__((visibility("default"))) const accel::engine::CudaModule*
accel_cuda_module(int version) {
  static const accel::engine::CudaModuleImpl module;
  return version == accel::engine::kCudaModuleVersion ? &module : nullptr;
}
