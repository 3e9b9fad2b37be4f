#include "core/engine/data/split.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace accel::engine {

absl::StatusOr<SplitIndices> RandomSplit(int64_t n, const accel::v1::Split& spec) {
  const auto held_out =
      static_cast<int64_t>(std::floor(static_cast<double>(n) * spec.evaluation_fraction()));
  if (held_out < 1 || held_out >= n) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.split.evaluation_fraction ", spec.evaluation_fraction(), " of ", n,
                     " samples holds out ", held_out, ": both parts need at least one"));
  }
  const at::Generator generator =
      at::detail::createCPUGenerator(static_cast<uint64_t>(spec.seed()));
  const at::Tensor order = at::randperm(n, generator, at::TensorOptions(at::kLong));
  return SplitIndices{order.narrow(0, 0, n - held_out), order.narrow(0, n - held_out, held_out)};
}

}  // namespace accel::engine
