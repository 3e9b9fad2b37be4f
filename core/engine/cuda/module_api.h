#ifndef ACCEL_CORE_ENGINE_CUDA_MODULE_API_H_
#define ACCEL_CORE_ENGINE_CUDA_MODULE_API_H_

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accel::engine {

// Memory of one device in bytes. The first four are the caching allocator's figures for this
// process, the last two the driver's for the whole device.
struct CudaMemory {
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t max_allocated_bytes = 0;  // since the start or the last ResetPeakMemory()
  int64_t max_reserved_bytes = 0;   // likewise
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  int device = 0;                                                // the one device this rank uses
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // of one collective
  bool high_priority_stream = false;
};

// What needs libtorch_cuda, behind an interface so that only the module libaccel_cuda.so links it.
// Devices are numbered from 0 as the CUDA runtime numbers them. Every method may be called from
// any thread; none throws. A device number out of range is INVALID_ARGUMENT.
class CudaModule {
 public:
  virtual ~CudaModule() = default;

  // 0 where the driver finds no device; FAILED_PRECONDITION with the driver's text where there is
  // no driver or it is too old for this CUDA runtime.
  virtual absl::StatusOr<int> DeviceCount() const = 0;

  // Makes `device` the calling thread's current device.
  virtual absl::Status SetDevice(int device) const = 0;

  // Waits until everything queued on `device` is done, and reports an error of it.
  virtual absl::Status Synchronize(int device) const = 0;

  // A c10d NCCL backend. The communicator is set up by the first collective, through `store`,
  // which the backend keeps. FAILED_PRECONDITION on a machine without devices.
  virtual absl::StatusOr<c10::intrusive_ptr<c10d::Backend>> CreateNcclBackend(
      const c10::intrusive_ptr<c10d::Store>& store, const NcclOptions& options) const = 0;

  virtual absl::StatusOr<CudaMemory> Memory(int device) const = 0;
  virtual absl::Status ResetPeakMemory(int device) const = 0;
};

// Raise it with every change of this header: a module answers only the version it was built for.
inline constexpr int kCudaModuleVersion = 1;

// The module's one exported symbol. Returns the module, which lives as long as the process, or
// null when it was built for another version.
inline constexpr char kCudaModuleSymbol[] = "accel_cuda_module";
using CudaModuleFunction = const CudaModule* (*)(int version);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CUDA_MODULE_API_H_
