#include "core/engine/cuda/loader.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/errors.h"

namespace accel::engine {
namespace {

absl::Status ModuleError(const std::string& path, absl::string_view problem) {
  return WithErrorInfo(
      absl::FailedPreconditionError(absl::StrCat("cuda module ", path, ": ", problem)),
      "CUDA_MODULE_UNUSABLE", {{"path", path}, {"problem", std::string(problem)}});
}

std::string LoaderText() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error of the dynamic loader" : text;
}

}  // namespace

absl::StatusOr<const CudaModule*> LoadCudaModule(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return WithErrorInfo(absl::NotFoundError(absl::StrCat("no cuda module at ", path)),
                         "CUDA_MODULE_NOT_FOUND", {{"path", path}});
  }
  void* handle = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return ModuleError(
        path, absl::StrCat(LoaderText(), " (deploy/bootstrap --cuda installs the libraries)"));
  }
  auto function = reinterpret_cast<CudaModuleFunction>(dlsym(handle, kCudaModuleSymbol));
  if (function == nullptr) return ModuleError(path, LoaderText());
  const CudaModule* module = function(kCudaModuleVersion);
  if (module == nullptr) {
    return ModuleError(
        path, absl::StrCat("built for another version, ", kCudaModuleVersion, " is needed"));
  }
  if (!at::detail::getCUDAHooks().hasCUDART()) {
    return ModuleError(path, "opened after libtorch had settled on having no cuda");
  }
  return module;
}

}  // namespace accel::engine
