#include "core/engine/distributed/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

using accel::v1::DistributedDataParallelKwargs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rows of a matrix that scale the input, a buffer that counts, and a branch that need not be used.
class Toy : public Model {
 public:
  explicit Toy(double value, int64_t rows = 2) {
    first = register_parameter("first", at::full({rows, 4}, value));
    second = register_parameter("second", at::full({rows, 4}, value));
    branch = register_parameter("branch", at::full({4}, value));
    counter = register_buffer("counter", at::full({1}, value));
  }

  at::Tensor forward(at::Tensor input) override {
    at::Tensor output = (first.mean(0) + second.mean(0)) * input;
    return use_branch ? output + branch : output;
  }

  at::Tensor first;
  at::Tensor second;
  at::Tensor branch;
  at::Tensor counter;
  bool use_branch = true;
};

DistributedDataParallelKwargs Defaults() {
  return MakeStarts(1)[0].resolved_accelerator().ddp_kwargs();
}

void Step(DistributedDataParallel& ddp, Toy& model, double input) {
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  ddp.Forward(at::full({4}, input)).sum().backward();
}

TEST(Ddp, StartsFromRankZeroAndAveragesGradients) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(communicator.rank() + 1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    EXPECT_EQ(model->first[0][0].item<double>(), 1);
    EXPECT_EQ(model->counter.item<double>(), 1);
    Step(ddp, *model, communicator.rank() == 0 ? 1 : 3);
    // Each row is half of the mean over rows; inputs 1 and 3 average to 2.
    EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 1.0)));
    EXPECT_TRUE(at::equal(model->branch.grad(), at::ones({4})));
  });
}

TEST(Ddp, ComparesShapesOverTheRanks) {
  RunRanks(MakeStarts(2, /*timeout_seconds=*/5), [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0, /*rows=*/2 + communicator.rank());
    EXPECT_THROW(DistributedDataParallel(model, Defaults(), communicator), std::exception);
  });
}

TEST(Ddp, BroadcastBuffersFollowsRankZeroBeforeEachForward) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    model->counter.fill_(10 + communicator.rank());
    Step(ddp, *model, 1);
    EXPECT_EQ(model->counter.item<double>(), 10);
  });
}

TEST(Ddp, WithoutBroadcastBuffersTheyStayLocal) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(communicator.rank() + 1.0);
    DistributedDataParallelKwargs kwargs = Defaults();
    kwargs.set_broadcast_buffers(false);
    DistributedDataParallel ddp(model, kwargs, communicator);
    Step(ddp, *model, 1);
    EXPECT_EQ(model->counter.item<double>(), communicator.rank() + 1);
    EXPECT_EQ(model->first[0][0].item<double>(), 1);
  });
}

TEST(Ddp, EvaluationBroadcastsOnceAndTheNextForwardDoesNot) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    Step(ddp, *model, 1);
    model->counter.fill_(communicator.rank());
    ddp.SyncBuffersForEvaluation();
    EXPECT_EQ(model->counter.item<double>(), 0);
    model->counter.fill_(communicator.rank());
    Step(ddp, *model, 1);
    EXPECT_EQ(model->counter.item<double>(), communicator.rank());
    Step(ddp, *model, 1);
    EXPECT_EQ(model->counter.item<double>(), 0);
  });
}

// 2 parameters of 2 MiB and a small one.
constexpr int64_t kBigRows = 131072;

TEST(Ddp, DefaultCapRebuildsBucketsWithASmallFirstOne) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0, kBigRows);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    EXPECT_EQ(ddp.Buckets().size(), 1);
    Step(ddp, *model, 1);
    EXPECT_EQ(ddp.Buckets().size(), 1);
    Step(ddp, *model, 1);
    // The first bucket ends at 1 MiB, which one big parameter passes; the rest fits into 25 MiB.
    const BucketIndices buckets = ddp.Buckets();
    ASSERT_EQ(buckets.size(), 2);
    EXPECT_EQ(buckets[0].size() + buckets[1].size(), 3);
    EXPECT_EQ(buckets[1].size(), 1);
  });
}

TEST(Ddp, ExplicitCapIsTheFirstBucketsToo) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0, kBigRows);
    DistributedDataParallelKwargs kwargs = Defaults();
    kwargs.set_bucket_cap_mb(3);
    DistributedDataParallel ddp(model, kwargs, communicator);
    Step(ddp, *model, 1);
    Step(ddp, *model, 1);
    // 16 bytes and 2 MiB leave room below 3 MiB: all three are in the first bucket.
    EXPECT_EQ(ddp.Buckets().size(), 1);
    EXPECT_THAT(ddp.BucketBytes(), ElementsAre(2 * kBigRows * 4 * 4 + 16));

    kwargs.set_bucket_cap_mb(1);
    DistributedDataParallel small(model, kwargs, communicator);
    Step(small, *model, 1);
    Step(small, *model, 1);
    EXPECT_EQ(small.Buckets().size(), 2);
  });
}

TEST(Ddp, StartsWithGivenBuckets) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator, {{2}, {1, 0}});
    EXPECT_THAT(ddp.Buckets(), ElementsAre(ElementsAre(2), ElementsAre(1, 0)));
    Step(ddp, *model, 1);
    EXPECT_TRUE(at::equal(model->branch.grad(), at::ones({4})));
  });
}

TEST(Ddp, UnusedParametersAreAnErrorUnlessLookedFor) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    model->use_branch = false;
    DistributedDataParallel ddp(model, Defaults(), communicator);
    Step(ddp, *model, 1);
    try {
      Step(ddp, *model, 1);
      ADD_FAILURE() << "no error";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("Expected to have finished reduction"));
    }
  });
}

TEST(Ddp, FindUnusedParametersLeavesTheirGradientsUndefined) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    model->use_branch = false;
    DistributedDataParallelKwargs kwargs = Defaults();
    kwargs.set_find_unused_parameters(true);
    DistributedDataParallel ddp(model, kwargs, communicator);
    for (int i = 0; i < 3; ++i) Step(ddp, *model, 1);
    EXPECT_FALSE(model->branch.grad().defined());
    EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 0.5)));
    model->use_branch = communicator.rank() == 0;  // used by one rank: its half counts for both
    Step(ddp, *model, 1);
    EXPECT_TRUE(at::equal(model->branch.grad(), at::full({4}, 0.5)));
  });
}

// Storages of all gradients.
std::set<const void*> GradientStorages(Toy& model) {
  std::set<const void*> storages;
  for (const at::Tensor& parameter : model.parameters()) {
    storages.insert(parameter.grad().storage().data());
  }
  return storages;
}

TEST(Ddp, GradientsAliasBucketsOnlyWhenAsked) {
  RunRanks(2, [](Communicator& communicator) {
    for (const bool view : {false, true}) {
      auto model = std::make_shared<Toy>(1.0);
      DistributedDataParallelKwargs kwargs = Defaults();
      kwargs.set_gradient_as_bucket_view(view);
      DistributedDataParallel ddp(model, kwargs, communicator);
      for (int i = 0; i < 3; ++i) Step(ddp, *model, 1);
      EXPECT_EQ(GradientStorages(*model).size(), view ? 1 : 3);
      EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 0.5)));
    }
  });
}

TEST(Ddp, StaticGraphFindsUnusedParametersOnce) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    model->use_branch = false;
    DistributedDataParallelKwargs kwargs = Defaults();
    kwargs.set_static_graph(true);
    kwargs.set_bucket_cap_mb(1);
    DistributedDataParallel ddp(model, kwargs, communicator);
    for (int i = 0; i < 4; ++i) {
      Step(ddp, *model, communicator.rank() == 0 ? 1 : 3);
      EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 1.0))) << "step " << i;
      EXPECT_FALSE(model->branch.grad().defined());
    }
  });
}

TEST(Ddp, WithoutGradSyncGradientsStayLocalAndAddUp) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    const double input = communicator.rank() == 0 ? 1 : 3;
    ddp.set_require_backward_grad_sync(false);
    Step(ddp, *model, input);
    EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, input / 2)));
    ddp.set_require_backward_grad_sync(true);
    ddp.Forward(at::full({4}, input)).sum().backward();
    EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 2.0)));
  });
}

// Replaces each bucket by a number.
class ConstantHook : public c10d::CppCommHookInterface<double> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    future->markCompleted(at::full_like(bucket.getBuffer(), state_));
    return future;
  }
};

TEST(Ddp, CommHookReplacesTheAllReduce) {
  RunRanks(2, [](Communicator& communicator) {
    auto model = std::make_shared<Toy>(1.0);
    DistributedDataParallel ddp(model, Defaults(), communicator);
    ddp.RegisterCommHook(std::make_unique<ConstantHook>(42.0));
    Step(ddp, *model, 1);
    EXPECT_TRUE(at::equal(model->first.grad(), at::full({2, 4}, 42.0)));
  });
}

}  // namespace
}  // namespace accel::engine
