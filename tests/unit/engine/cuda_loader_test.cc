#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "core/engine/cuda/loader.h"

namespace accel::engine {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(CudaLoaderTest, MissingFileIsNotFound) {
  const auto module = LoadCudaModule("/nonexistent/libaccel_cuda.so");
  EXPECT_EQ(module.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(module.status().message()), HasSubstr("/nonexistent/libaccel_cuda.so"));
}

TEST(CudaLoaderTest, FolderIsNotFound) {
  EXPECT_EQ(LoadCudaModule(testing::TempDir()).status().code(), absl::StatusCode::kNotFound);
}

TEST(CudaLoaderTest, FileThatIsNoLibraryIsRefused) {
  const std::string path = testing::TempDir() + "/cuda_loader_test_no_library.so";
  std::ofstream(path) << "text";
  const auto module = LoadCudaModule(path);
  std::filesystem::remove(path);
  EXPECT_EQ(module.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(module.status().message()), HasSubstr(path));
}

TEST(CudaLoaderTest, LibraryThatIsNoModuleIsRefused) {
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&dlopen), &info), 0);
  const auto module = LoadCudaModule(info.dli_fname);
  EXPECT_EQ(module.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(module.status().message()), HasSubstr(kCudaModuleSymbol));
}

// Without the CUDA libraries the error names the first one that is missing; with them the module
// says what the machine has.
TEST(CudaLoaderTest, ModuleOfThisBuildLoadsOrNamesTheMissingLibrary) {
  const auto module = LoadCudaModule(ACCEL_CUDA_MODULE);
  if (!module.ok()) {
    EXPECT_EQ(module.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(module.status().message()),
                ContainsRegex("lib[^ ]*\\.so[^ ]*: cannot open shared object file"));
    EXPECT_THAT(std::string(module.status().message()), HasSubstr("deploy/bootstrap --cuda"));
    return;
  }
  const auto count = (*module)->DeviceCount();
  if (!count.ok()) {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(count.status().message()), HasSubstr("driver"));
  }
  if (count.value_or(0) == 0) {
    const auto backend =
        (*module)->CreateNcclBackend(c10::make_intrusive<c10d::HashStore>(), NcclOptions{});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ((*module)->Memory(0).status().code(), absl::StatusCode::kFailedPrecondition);
    return;
  }
  EXPECT_EQ((*module)->SetDevice(*count).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*module)->SetDevice(-1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaLoaderTest, OneRankReducesOverNccl) {
  const auto module = LoadCudaModule(ACCEL_CUDA_MODULE);
  if (!module.ok() || (*module)->DeviceCount().value_or(0) == 0) {
    GTEST_SKIP() << "no cuda device: "
                 << (module.ok() ? (*module)->DeviceCount().status() : module.status());
  }
  ASSERT_TRUE((*module)->SetDevice(0).ok());
  const auto backend =
      (*module)->CreateNcclBackend(c10::make_intrusive<c10d::HashStore>(), NcclOptions{});
  ASSERT_TRUE(backend.ok()) << backend.status();
  std::vector<at::Tensor> tensors = {at::ones({1024}, at::Device(at::kCUDA, 0))};
  (*backend)->allreduce(tensors)->wait();
  ASSERT_TRUE((*module)->Synchronize(0).ok());
  EXPECT_EQ(tensors[0].sum().item<float>(), 1024.0f);
  const auto memory = (*module)->Memory(0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GE(memory->allocated_bytes, 4096);
  EXPECT_GE(memory->reserved_bytes, memory->allocated_bytes);
  EXPECT_GE(memory->max_allocated_bytes, memory->allocated_bytes);
}

}  // namespace
}  // namespace accel::engine
