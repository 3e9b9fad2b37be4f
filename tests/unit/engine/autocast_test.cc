#include "core/engine/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace accel::engine {
namespace {

namespace autocast = at::autocast;
using accel::v1::AcceleratorConfig;

AcceleratorConfig Mode(const char* mode) {
  AcceleratorConfig config;
  config.set_mixed_precision(mode);
  config.mutable_autocast_kwargs()->set_enabled(true);
  return config;
}

AcceleratorConfig Bf16() { return Mode("bf16"); }

at::ScalarType LinearType(const AcceleratorConfig& config) {
  auto autocast = Autocast::Create(config, at::kCPU);
  EXPECT_TRUE(autocast.ok()) << autocast.status();
  at::ScalarType inside = at::kLong;
  const at::Tensor output = autocast->Run([&] {
    at::Tensor result = at::linear(at::randn({2, 3}), at::randn({4, 3}));
    inside = result.scalar_type();
    return result;
  });
  EXPECT_EQ(output.scalar_type(), at::kFloat);
  return inside;
}

TEST(AutocastTest, CastsInsideAndReturnsFloat32) {
  AcceleratorConfig config;
  EXPECT_EQ(LinearType(config), at::kFloat);
  config.set_mixed_precision("no");
  EXPECT_EQ(LinearType(config), at::kFloat);
  config = Bf16();
  EXPECT_EQ(LinearType(config), at::kBFloat16);
  config.mutable_autocast_kwargs()->set_enabled(false);
  EXPECT_EQ(LinearType(config), at::kFloat);
  config = Mode("fp16");
  EXPECT_EQ(LinearType(config), at::kHalf);
  config.mutable_autocast_kwargs()->set_enabled(false);
  EXPECT_EQ(LinearType(config), at::kFloat);
}

// Nothing runs on the GPU: the switches are those of the CUDA device, and the CPU's stay.
TEST(AutocastTest, CastsOnTheDeviceOfTheJob) {
  for (const auto& [mode, type] :
       {std::pair("bf16", at::kBFloat16), std::pair("fp16", at::kHalf)}) {
    for (const std::optional<bool> cache :
         {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      AcceleratorConfig config = Mode(mode);
      if (cache.has_value()) config.mutable_autocast_kwargs()->set_cache_enabled(*cache);
      Autocast::Create(config, at::kCUDA)->Run([&, expected = type] {
        EXPECT_TRUE(autocast::is_autocast_enabled(at::kCUDA));
        EXPECT_FALSE(autocast::is_autocast_enabled(at::kCPU));
        EXPECT_EQ(autocast::get_autocast_dtype(at::kCUDA), expected);
        EXPECT_EQ(autocast::is_autocast_cache_enabled(), cache.value_or(true));
        return at::randn({1});
      });
      EXPECT_FALSE(autocast::is_autocast_enabled(at::kCUDA));
    }
  }
}

TEST(AutocastTest, CacheIsAsToldAndOtherwiseAsItWas) {
  const auto cache_inside = [](const AcceleratorConfig& config) {
    bool enabled = false;
    Autocast::Create(config, at::kCPU)->Run([&] {
      enabled = autocast::is_autocast_cache_enabled();
      return at::randn({1});
    });
    return enabled;
  };
  EXPECT_TRUE(cache_inside(Bf16()));
  AcceleratorConfig config = Bf16();
  config.mutable_autocast_kwargs()->set_cache_enabled(false);
  EXPECT_FALSE(cache_inside(config));
  EXPECT_TRUE(autocast::is_autocast_cache_enabled());
  autocast::set_autocast_cache_enabled(false);
  EXPECT_FALSE(cache_inside(Bf16()));
  config.mutable_autocast_kwargs()->set_cache_enabled(true);
  EXPECT_TRUE(cache_inside(config));
  EXPECT_FALSE(autocast::is_autocast_cache_enabled());
  autocast::set_autocast_cache_enabled(true);
}

// A forward pass after the optimizer's step must not see casts of the weights before it.
TEST(AutocastTest, CastsOfWeightsDoNotOutliveTheForwardPass) {
  const at::Tensor weight = at::randn({4, 3}).set_requires_grad(true);
  const at::Tensor input = at::randn({2, 3});
  const Autocast autocast = *Autocast::Create(Bf16(), at::kCPU);
  const at::Tensor before = autocast.Run([&] { return at::linear(input, weight); });
  weight.detach().mul_(2);
  const at::Tensor after = autocast.Run([&] { return at::linear(input, weight); });
  EXPECT_TRUE(after.equal(before * 2));
}

TEST(AutocastTest, StateIsRestoredWhenTheForwardPassThrows) {
  const Autocast autocast = *Autocast::Create(Bf16(), at::kCPU);
  EXPECT_THROW(autocast.Run([]() -> at::Tensor { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_FALSE(autocast::is_autocast_enabled(at::kCPU));
}

TEST(AutocastTest, OtherModesAreRefused) {
  EXPECT_EQ(Autocast::Create(Mode("fp8"), at::kCPU).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CheckMasterWeightsTest, NamesAParameterThatIsFloat16) {
  const std::vector<NamedParameter> parameters{{"embed.weight", at::randn({2})},
                                               {"out.weight", at::randn({2}).to(at::kHalf)}};
  EXPECT_TRUE(CheckMasterWeights(Mode("bf16"), parameters).ok());
  EXPECT_TRUE(CheckMasterWeights(Mode("fp16"), {parameters[0]}).ok());
  const absl::Status refused = CheckMasterWeights(Mode("fp16"), parameters);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("parameter out.weight is float16"));
}

}  // namespace
}  // namespace accel::engine
