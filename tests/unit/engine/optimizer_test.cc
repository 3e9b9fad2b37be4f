#include "core/engine/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace accel::engine {
namespace {

using ::testing::HasSubstr;

at::Tensor Parameter(double value) { return at::full({3}, value).requires_grad_(true); }

std::unique_ptr<Optimizer> Make(const accel::v1::OptimizerSpec& spec, at::Tensor parameter) {
  auto optimizer = Optimizer::Create(spec, {{"w", std::move(parameter)}});
  EXPECT_TRUE(optimizer.ok());
  return *std::move(optimizer);
}

accel::v1::OptimizerSpec SgdSpec(double lr, double momentum) {
  accel::v1::OptimizerSpec spec;
  spec.mutable_sgd()->set_lr(lr);
  spec.mutable_sgd()->set_momentum(momentum);
  return spec;
}

TEST(Optimizer, SgdWithMomentumFollowsItsFormula) {
  at::Tensor w = Parameter(1);
  auto sgd = Make(SgdSpec(0.5, 0.5), w);
  double value = 1;
  double velocity = 0;
  for (int i = 0; i < 3; ++i) {
    w.mutable_grad() = at::full({3}, 2.0);
    sgd->Step();
    velocity = i == 0 ? 2 : 0.5 * velocity + 2;
    value -= 0.5 * velocity;
    EXPECT_EQ(w[0].item<double>(), value);
  }
}

TEST(Optimizer, SgdTakesAParametersFirstGradientLate) {
  at::Tensor early = Parameter(1);
  at::Tensor late = Parameter(1);
  auto sgd = *Optimizer::Create(SgdSpec(1, 0.5), {{"early", early}, {"late", late}});
  early.mutable_grad() = at::ones({3});
  sgd->Step();
  EXPECT_EQ(late[0].item<double>(), 1);
  EXPECT_EQ(sgd->State().size(), 1);
  late.mutable_grad() = at::ones({3});
  sgd->Step();
  EXPECT_EQ(early[0].item<double>(), -1.5);
  EXPECT_EQ(late[0].item<double>(), 0);
}

TEST(Optimizer, DefaultsAreTorchs) {
  accel::v1::OptimizerSpec spec;
  spec.mutable_adamw();
  at::Tensor w = Parameter(1);
  auto adamw = Make(spec, w);
  EXPECT_EQ(adamw->learning_rate(), 1e-3);
  w.mutable_grad() = at::ones({3});
  adamw->Step();
  // Decay by lr * 0.01, then a first step of lr.
  EXPECT_NEAR(w[0].item<double>(), 1 - 1e-5 - 1e-3, 1e-7);

  spec.mutable_adam();
  at::Tensor v = Parameter(1);
  auto adam = Make(spec, v);
  v.mutable_grad() = at::ones({3});
  adam->Step();
  EXPECT_NEAR(v[0].item<double>(), 1 - 1e-3, 1e-7);
}

// One specification for each optimizer that counts its steps.
std::vector<accel::v1::OptimizerSpec> CountingSpecs() {
  std::vector<accel::v1::OptimizerSpec> specs(4);
  specs[0].mutable_adam();
  specs[1].mutable_adamw();
  specs[2].mutable_adagrad();
  specs[3].mutable_rmsprop()->set_weight_decay(0.5);
  return specs;
}

TEST(Optimizer, OverflowSkipsTheStep) {
  for (const accel::v1::OptimizerSpec& spec : CountingSpecs()) {
    at::Tensor w = Parameter(1);
    auto optimizer = Make(spec, w);
    w.mutable_grad() = at::ones({3});
    optimizer->Step();
    const at::Tensor before = w.detach().clone();
    optimizer->Step({.scale = at::full({}, 2.0f), .found_inf = at::ones({})});
    EXPECT_TRUE(at::equal(w.detach(), before)) << spec.ShortDebugString();
    EXPECT_EQ(optimizer->State().at("w.step").item<double>(), 1) << spec.ShortDebugString();
  }
}

TEST(Optimizer, ScaledGradientsMakeTheSameStep) {
  for (const accel::v1::OptimizerSpec& spec : CountingSpecs()) {
    at::Tensor plain = Parameter(1);
    at::Tensor scaled = Parameter(1);
    plain.mutable_grad() = at::full({3}, 0.75);
    scaled.mutable_grad() = at::full({3}, 3.0);
    Make(spec, plain)->Step();
    Make(spec, scaled)->Step({.scale = at::full({}, 4.0f), .found_inf = at::zeros({})});
    EXPECT_TRUE(at::equal(plain, scaled)) << spec.ShortDebugString();
  }
}

TEST(Optimizer, NoDecayIsAGroupOfItsOwn) {
  accel::v1::OptimizerSpec spec = SgdSpec(1, 0);
  spec.mutable_sgd()->set_weight_decay(0.5);
  const auto values = [&](const accel::v1::NoDecay& no_decay) {
    *spec.mutable_no_decay() = no_decay;
    std::vector<NamedParameter> parameters;
    for (const char* name : {"norm.weight", "norm.bias", "out.weight", "out.bias"}) {
      const bool matrix = std::string(name) == "out.weight";
      at::Tensor tensor = at::ones(matrix ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{1});
      tensor.requires_grad_(true).mutable_grad() = at::zeros_like(tensor.detach());
      parameters.push_back({name, tensor});
    }
    (*Optimizer::Create(spec, parameters))->Step();
    std::vector<double> found;
    for (const auto& parameter : parameters) found.push_back(parameter.tensor.item<double>());
    return found;
  };
  using ::testing::ElementsAre;
  accel::v1::NoDecay no_decay;
  EXPECT_THAT(values(no_decay), ElementsAre(0.5, 0.5, 0.5, 0.5));
  no_decay.set_biases(true);
  EXPECT_THAT(values(no_decay), ElementsAre(0.5, 1, 0.5, 1));
  no_decay.set_norms(true);
  EXPECT_THAT(values(no_decay), ElementsAre(1, 1, 0.5, 1));
  no_decay.clear_biases();
  EXPECT_THAT(values(no_decay), ElementsAre(1, 1, 0.5, 0.5));
  no_decay.clear_norms();
  no_decay.add_name_contains("out.w");
  EXPECT_THAT(values(no_decay), ElementsAre(0.5, 0.5, 1, 0.5));
}

TEST(Optimizer, NoDecayOfNoParameterIsAnError) {
  accel::v1::OptimizerSpec spec;
  spec.mutable_adamw();
  spec.mutable_no_decay()->add_name_contains("missing");
  const absl::Status status = Optimizer::Create(spec, {{"w", Parameter(1)}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"missing\" is in the name of no parameter"));
}

TEST(Optimizer, StateGoesOnWhereItWasSaved) {
  accel::v1::OptimizerSpec spec;
  spec.mutable_adam()->set_amsgrad(true);
  at::Tensor w = Parameter(1);
  auto adam = Make(spec, w);
  const auto step = [](Optimizer& optimizer, at::Tensor& parameter, double gradient) {
    parameter.mutable_grad() = at::full({3}, gradient);
    optimizer.Step();
  };
  step(*adam, w, 1);
  step(*adam, w, -3);
  at::Tensor copy = w.detach().clone().requires_grad_(true);
  auto resumed = Make(spec, copy);
  ASSERT_TRUE(resumed->LoadState(adam->State()).ok());
  step(*adam, w, 2);
  step(*resumed, copy, 2);
  EXPECT_TRUE(at::equal(w, copy));
}

TEST(Optimizer, RefusesStateOfAnother) {
  accel::v1::OptimizerSpec spec;
  spec.mutable_adam();
  at::Tensor w = Parameter(1);
  auto adam = Make(spec, w);
  w.mutable_grad() = at::ones({3});
  adam->Step();
  auto state = adam->State();

  auto other = Make(SgdSpec(1, 0.9), Parameter(1));
  EXPECT_EQ(other->LoadState(state).code(), absl::StatusCode::kInvalidArgument);
  state["w.exp_avg"] = at::zeros({4});
  EXPECT_THAT(adam->LoadState(state).message(), HasSubstr("w.exp_avg has shape [4]"));
  state.erase("w.exp_avg");
  EXPECT_THAT(adam->LoadState(state).message(), HasSubstr("incomplete"));
  EXPECT_EQ(adam->State().size(), 3);  // as it was
}

TEST(Optimizer, ZeroGradDropsGradients) {
  at::Tensor w = Parameter(1);
  auto sgd = Make(SgdSpec(1, 0), w);
  w.mutable_grad() = at::ones({3});
  sgd->ZeroGrad();
  EXPECT_FALSE(w.grad().defined());
  sgd->Step();
  EXPECT_TRUE(at::equal(w.detach(), at::ones({3})));
}

TEST(Optimizer, MissingChoiceIsAnError) {
  EXPECT_EQ(Optimizer::Create({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace accel::engine
