#ifndef ACCEL_CORE_ENGINE_CUDA_LOADER_H_
#define ACCEL_CORE_ENGINE_CUDA_LOADER_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/engine/cuda/module_api.h"

namespace accel::engine {

// File name of the module; it is installed beside the worker or in the lib folder next to its bin.
inline constexpr char kCudaModuleFileName[] = "libaccel_cuda.so";

// Opens the CUDA module at `path`. It is never closed, since LibTorch cannot take back what
// libtorch_cuda registers: the pointer stays valid until the process ends. Opening it again
// returns the same module.
//
// Call it before the process first asks LibTorch about CUDA (at::hasCUDA(), torch::manual_seed()
// and any use of a CUDA tensor do): LibTorch looks for libtorch_cuda once and keeps the answer.
//
// NOT_FOUND: no file at `path`. FAILED_PRECONDITION: the file is not a module of this build, a
// library it needs is missing (with the loader's text), or the call came too late. An error leaves
// the process able to go on without CUDA. That a module opens does not say that there is a device:
// see CudaModule::DeviceCount().
absl::StatusOr<const CudaModule*> LoadCudaModule(const std::string& path);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CUDA_LOADER_H_
