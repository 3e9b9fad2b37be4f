#include "core/engine/precision/autocast.h"

#include <ATen/autocast_mode.h>

#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

namespace autocast = at::autocast;

// What torch.autocast's __enter__ and __exit__ do.
class Scope {
 public:
  Scope(at::DeviceType device, at::ScalarType dtype, bool enabled,
        std::optional<bool> cache_enabled)
      : device_(device),
        enabled_before_(autocast::is_autocast_enabled(device)),
        dtype_before_(autocast::get_autocast_dtype(device)),
        cache_before_(autocast::is_autocast_cache_enabled()) {
    autocast::set_autocast_enabled(device, enabled);
    autocast::set_autocast_dtype(device, dtype);
    autocast::increment_nesting();
    autocast::set_autocast_cache_enabled(cache_enabled.value_or(cache_before_));
  }

  ~Scope() {
    // The cached copies of weights are out of date after the optimizer's step.
    if (autocast::decrement_nesting() == 0) autocast::clear_cache();
    autocast::set_autocast_enabled(device_, enabled_before_);
    autocast::set_autocast_dtype(device_, dtype_before_);
    autocast::set_autocast_cache_enabled(cache_before_);
  }

  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const at::DeviceType device_;
  const bool enabled_before_;
  const at::ScalarType dtype_before_;
  const bool cache_before_;
};

}  // namespace

absl::StatusOr<Autocast> Autocast::Create(const accel::v1::AcceleratorConfig& config,
                                          at::DeviceType device) {
  Autocast result;
  const std::string& mode = config.mixed_precision();
  if (mode.empty() || mode == "no") return result;
  if (mode != "bf16" && mode != "fp16") {
    return absl::UnimplementedError(
        absl::StrCat("mixed_precision is ", mode, ", implemented are no, bf16 and fp16"));
  }
  const accel::v1::AutocastKwargs& kwargs = config.autocast_kwargs();
  result.device_ = device;
  result.dtype_ = mode == "bf16" ? at::kBFloat16 : at::kHalf;
  result.enabled_ = !kwargs.has_enabled() || kwargs.enabled();
  if (kwargs.has_cache_enabled()) result.cache_enabled_ = kwargs.cache_enabled();
  return result;
}

absl::Status CheckMasterWeights(const accel::v1::AcceleratorConfig& config,
                                const std::vector<NamedParameter>& parameters) {
  if (config.mixed_precision() != "fp16") return absl::OkStatus();
  for (const auto& [name, tensor] : parameters) {
    if (tensor.scalar_type() != at::kHalf) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", name,
                     " is float16: with mixed_precision fp16 parameters stay in float32, and "
                     "gradients in float16 cannot be unscaled"));
  }
  return absl::OkStatus();
}

at::Tensor Autocast::Run(const std::function<at::Tensor()>& forward) const {
  if (!dtype_.has_value()) return forward();
  at::Tensor output;
  {
    const Scope scope(device_, *dtype_, enabled_, cache_enabled_);
    output = forward();
  }
  const bool half = output.scalar_type() == at::kBFloat16 || output.scalar_type() == at::kHalf;
  return half ? output.to(at::kFloat) : output;
}

}  // namespace accel::engine
