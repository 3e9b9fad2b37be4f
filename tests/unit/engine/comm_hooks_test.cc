#include "core/engine/distributed/comm_hooks.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/engine/distributed/power_sgd.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

using accel::v1::DistributedDataParallelKwargs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Ignore(const std::string&) {}

PowerSgdState::Options DefaultOptions() {
  PowerSgdState::Options options;
  options.set_matrix_approximation_rank(1);
  options.set_start_powersgd_iter(2);
  options.set_min_compression_rate(2);
  options.set_use_error_feedback(true);
  options.set_warm_start(true);
  options.set_orthogonalization_epsilon(0);
  options.set_random_seed(0);
  options.set_compression_stats_logging_frequency(10000);
  options.set_batch_tensors_with_same_shape(false);
  options.set_zero_gradient_guard(true);
  return options;
}

DistributedDataParallelKwargs Kwargs(const std::string& hook) {
  DistributedDataParallelKwargs kwargs;
  kwargs.set_comm_hook(hook);
  *kwargs.mutable_comm_state_option() = DefaultOptions();
  kwargs.mutable_comm_state_option()->set_start_powersgd_iter(0);
  return kwargs;
}

// Runs a hook over the only bucket of an iteration, with one matrix for a gradient.
at::Tensor Reduce(c10d::CommHookInterface& hook, const at::Tensor& gradient) {
  const at::Tensor flat = gradient.flatten().clone();
  const std::vector<int64_t> sizes = gradient.sizes().vec();
  c10d::GradBucket bucket(0, 1, flat, {0}, {static_cast<size_t>(flat.numel())},
                          {at::IntArrayRef(sizes)}, {gradient}, std::nullopt);
  const auto future = hook.runHook(bucket);
  future->wait();
  EXPECT_FALSE(future->hasError()) << future->tryRetrieveErrorMessage();
  return hook.parseHookResult(future->value()).view(sizes);
}

TEST(CommHooks, NoHookUnlessAskedFor) {
  EXPECT_EQ(MakeCommHook(Kwargs("no"), {}, Ignore).hook, nullptr);
  EXPECT_EQ(MakeCommHook(Kwargs(""), {}, Ignore).hook, nullptr);
  EXPECT_EQ(CommHookName(Kwargs("no")), "no");
  DistributedDataParallelKwargs wrapped = Kwargs("power_sgd");
  EXPECT_EQ(CommHookName(wrapped), "power_sgd");
  wrapped.set_comm_wrapper("bf16");
  EXPECT_EQ(CommHookName(wrapped), "power_sgd in bf16");
}

TEST(CommHooks, Fp16CastsBeforeItDivides) {
  RunRanks(2, [](Communicator& communicator) {
    const CommHook made = MakeCommHook(Kwargs("fp16"), communicator.group(), Ignore);
    EXPECT_EQ(made.state, nullptr);
    // 70000 is above the greatest number of fp16, though its half is not.
    const double large = communicator.rank() == 0 ? 70000 : 1;
    const at::Tensor mean = Reduce(*made.hook, at::full({3}, large));
    EXPECT_EQ(mean[0].item<double>(), std::numeric_limits<double>::infinity());
    EXPECT_EQ(mean.scalar_type(), at::kFloat);
    const at::Tensor rounded = Reduce(*made.hook, at::full({3}, 1 + 1.0 / 4096));
    EXPECT_TRUE(at::equal(rounded, at::ones({3})));
  });
}

TEST(CommHooks, OverflowGuardDividesBeforeItCasts) {
  RunRanks(2, [](Communicator& communicator) {
    for (const char* hook : {"fp16", "bf16"}) {
      DistributedDataParallelKwargs kwargs = Kwargs(hook);
      kwargs.set_comm_hook_overflow_guard(true);
      const CommHook made = MakeCommHook(kwargs, communicator.group(), Ignore);
      const double large = communicator.rank() == 0 ? 70000 : 0;
      const at::Tensor mean = Reduce(*made.hook, at::full({3}, large));
      const at::Tensor half = at::full({3}, 35000).to(hook[0] == 'f' ? at::kHalf : at::kBFloat16);
      EXPECT_TRUE(at::equal(mean, half.to(at::kFloat))) << hook << " " << mean;
    }
  });
}

TEST(CommHooks, WrapperReturnsItsOwnType) {
  RunRanks(2, [](Communicator& communicator) {
    DistributedDataParallelKwargs kwargs = Kwargs("fp16");
    kwargs.set_comm_wrapper("bf16");
    const CommHook made = MakeCommHook(kwargs, communicator.group(), Ignore);
    const at::Tensor mean = Reduce(*made.hook, at::full({3}, communicator.rank() + 1.0));
    EXPECT_EQ(mean.scalar_type(), at::kBFloat16);
    EXPECT_EQ(mean[0].item<double>(), 1.5);
  });
}

// A matrix of rank 1, which an approximation of rank 1 keeps.
at::Tensor OuterProduct(double scale) {
  const at::Tensor column = at::full({8, 1}, 1.0);
  const at::Tensor row = at::full({1, 6}, 2.0);
  return at::matmul(column, row) * scale;
}

TEST(CommHooks, PowerSgdKeepsWhatHasItsRank) {
  for (const char* hook : {"power_sgd", "batched_power_sgd"}) {
    RunRanks(2, [hook](Communicator& communicator) {
      const CommHook made = MakeCommHook(Kwargs(hook), communicator.group(), Ignore);
      for (int i = 0; i < 3; ++i) {
        // Padded to 7 x 7 the batched hook's matrix has another rank; error feedback bounds its
        // loss.
        const at::Tensor mean = Reduce(*made.hook, OuterProduct(communicator.rank() == 0 ? 1 : 3));
        const double tolerance = std::string(hook) == "power_sgd" ? 1e-5 : 0.5;
        EXPECT_TRUE(at::allclose(mean, OuterProduct(2), tolerance)) << hook << " " << mean;
      }
      EXPECT_EQ(made.state->iteration(), 3);
    });
  }
}

TEST(CommHooks, PowerSgdLeavesZerosZero) {
  for (const char* hook : {"power_sgd", "batched_power_sgd"}) {
    for (const int rank : {1, 2, 3}) {
      RunRanks(2, [hook, rank](Communicator& communicator) {
        DistributedDataParallelKwargs kwargs = Kwargs(hook);
        kwargs.mutable_comm_state_option()->set_matrix_approximation_rank(rank);
        kwargs.mutable_comm_state_option()->set_min_compression_rate(0.1);
        const CommHook made = MakeCommHook(kwargs, communicator.group(), Ignore);
        for (int i = 0; i < 3; ++i) {
          EXPECT_TRUE(at::equal(Reduce(*made.hook, at::zeros({8, 6})), at::zeros({8, 6}))) << rank;
        }
      });
    }
  }
}

TEST(CommHooks, PowerSgdMakesZerosNanWithoutTheGuardAsTorchDoes) {
  for (const char* hook : {"power_sgd", "batched_power_sgd"}) {
    RunRanks(2, [hook](Communicator& communicator) {
      DistributedDataParallelKwargs kwargs = Kwargs(hook);
      kwargs.mutable_comm_state_option()->set_zero_gradient_guard(false);
      const CommHook made = MakeCommHook(kwargs, communicator.group(), Ignore);
      EXPECT_TRUE(Reduce(*made.hook, at::zeros({8, 6})).isnan().all().item<bool>()) << hook;
    });
  }
}

TEST(CommHooks, PowerSgdRecoversFromAnOverflow) {
  for (const char* hook : {"power_sgd", "batched_power_sgd"}) {
    RunRanks(2, [hook](Communicator& communicator) {
      const CommHook made = MakeCommHook(Kwargs(hook), communicator.group(), Ignore);
      Reduce(*made.hook, OuterProduct(1));
      at::Tensor overflowed = OuterProduct(1);
      if (communicator.rank() == 0) overflowed[3][2] = std::numeric_limits<double>::infinity();
      EXPECT_FALSE(Reduce(*made.hook, overflowed).isfinite().all().item<bool>()) << hook;
      made.state->ForgetNonFinite();
      EXPECT_TRUE(Reduce(*made.hook, OuterProduct(1)).isfinite().all().item<bool>()) << hook;
    });
  }
}

TEST(CommHooks, PowerSgdForgetsWhatHasAnotherLength) {
  RunRanks(2, [](Communicator& communicator) {
    for (const char* hook : {"power_sgd", "batched_power_sgd"}) {
      const CommHook made = MakeCommHook(Kwargs(hook), communicator.group(), Ignore);
      Reduce(*made.hook, at::randn({8, 6}));
      const at::Tensor mean = Reduce(*made.hook, at::full({9, 9}, communicator.rank() + 1.0));
      EXPECT_TRUE(at::allclose(mean, at::full({9, 9}, 1.5))) << mean;
    }
  });
}

TEST(CommHooks, BatchedPowerSgdNamesARankThatIsTooHigh) {
  RunRanks(2, [](Communicator& communicator) {
    DistributedDataParallelKwargs kwargs = Kwargs("batched_power_sgd");
    kwargs.mutable_comm_state_option()->set_matrix_approximation_rank(8);
    const CommHook made = MakeCommHook(kwargs, communicator.group(), Ignore);
    try {
      Reduce(*made.hook, at::ones({8, 6}));
      ADD_FAILURE() << "no error";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("matrix_approximation_rank 8 is above"));
    }
  });
}

TEST(Orthogonalize, MakesColumnsOrthonormal) {
  for (const int columns : {1, 2, 3, 5}) {
    const at::Tensor matrices = at::randn({4, 5, columns});
    Orthogonalize(matrices, 0, /*guard=*/true);
    const at::Tensor products = at::matmul(matrices.transpose(1, 2), matrices);
    EXPECT_TRUE(at::allclose(products, at::eye(columns).expand_as(products), 1e-5, 1e-5));
  }
}

// Values of numpy's RandomState(seed).randint(1000000000).
TEST(PowerSgdState, SeedsAreNumpys) {
  const auto seeds = [](uint32_t seed) {
    PowerSgdState::Options options = DefaultOptions();
    options.set_random_seed(seed);
    PowerSgdState state(options, Ignore);
    return std::vector<uint64_t>{state.NextSeed(), state.NextSeed(), state.NextSeed(),
                                 state.NextSeed()};
  };
  EXPECT_THAT(seeds(0), ElementsAre(209652396, 398764591, 924231285, 404868288));
  EXPECT_THAT(seeds(1), ElementsAre(717354021, 946286476, 784077896, 491263));
  EXPECT_THAT(seeds(42), ElementsAre(534895718, 199900595, 862061404, 787846414));
}

TEST(PowerSgdState, ReportsAtItsFrequencyWithTheLastBucket) {
  PowerSgdState::Options options = DefaultOptions();
  options.set_compression_stats_logging_frequency(2);
  std::vector<std::string> lines;
  PowerSgdState state(options, [&](const std::string& line) { lines.push_back(line); });
  for (int i = 0; i < 4; ++i) {
    for (const bool last : {false, true}) {
      state.Count(10, 4);
      state.ReportStatistics(last);
      state.EndBucket(last);
    }
  }
  EXPECT_THAT(lines, ElementsAre("power_sgd: iteration 0, elements before compression 20, after "
                                 "compression 8, rate 2.5",
                                 "power_sgd: iteration 2, elements before compression 60, after "
                                 "compression 24, rate 2.5"));
}

TEST(PowerSgdState, RestoresWhatItSaved) {
  PowerSgdState state(DefaultOptions(), Ignore);
  state.NextSeed();
  state.Count(10, 5);
  state.EndBucket(true);
  state.MemoryOf(3) = {.error = at::ones({4}), .q = at::ones({2})};
  PowerSgdState restored(DefaultOptions(), Ignore);
  ASSERT_TRUE(restored.Restore(state.Save(), at::kCPU).ok());
  EXPECT_EQ(restored.iteration(), 1);
  EXPECT_TRUE(at::equal(restored.MemoryOf(3).error, at::ones({4})));
  EXPECT_TRUE(at::equal(restored.MemoryOf(3).q, at::ones({2})));
  EXPECT_EQ(restored.NextSeed(), state.NextSeed());
}

TEST(PowerSgdState, RefusesWhatIsNoState) {
  PowerSgdState state(DefaultOptions(), Ignore);
  NamedTensors saved = state.Save();
  saved.pop_back();
  EXPECT_THAT(std::string(state.Restore(saved, at::kCPU).message()),
              HasSubstr("next_report is missing"));
  saved.emplace_back("stranger", at::ones({1}));
  EXPECT_THAT(std::string(state.Restore(saved, at::kCPU).message()),
              HasSubstr("unknown tensor stranger"));
}

}  // namespace
}  // namespace accel::engine
