#include "core/engine/model/mlp.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

enum class Activation { kRelu, kGelu, kTanh };

absl::StatusOr<Activation> ActivationOf(const accel::v1::Mlp& spec) {
  const std::string& name = spec.activation();
  if (name.empty() || name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "tanh") return Activation::kTanh;
  return absl::InvalidArgumentError(
      absl::StrCat("model.mlp.activation is \"", name, "\", allowed are relu, gelu and tanh"));
}

class Mlp : public SequentialOf<Model> {
 public:
  Mlp(const accel::v1::Mlp& spec, Activation activation) {
    Append(std::make_shared<LayerOf<torch::nn::FlattenImpl>>());
    const int last = spec.layer_sizes_size() - 1;
    for (int i = 0; i < last; ++i) {
      Append(std::make_shared<LayerOf<torch::nn::LinearImpl>>(
          torch::nn::LinearOptions(spec.layer_sizes(i), spec.layer_sizes(i + 1))));
      if (i + 1 == last) break;
      AppendActivation(activation);
      if (spec.dropout() > 0) {
        Append(std::make_shared<LayerOf<torch::nn::DropoutImpl>>(
            torch::nn::DropoutOptions(spec.dropout())));
      }
    }
  }

  at::Tensor forward(at::Tensor input) override { return Run(std::move(input)); }

 private:
  void AppendActivation(Activation activation) {
    switch (activation) {
      case Activation::kRelu:
        return Append(std::make_shared<LayerOf<torch::nn::ReLUImpl>>());
      case Activation::kGelu:
        return Append(std::make_shared<LayerOf<torch::nn::GELUImpl>>());
      case Activation::kTanh:
        return Append(std::make_shared<LayerOf<torch::nn::TanhImpl>>());
    }
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> BuildMlp(const accel::v1::Mlp& spec) {
  if (spec.layer_sizes_size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.mlp.layer_sizes has ", spec.layer_sizes_size(), " values, at least 2 are needed"));
  }
  ACCEL_ASSIGN_OR_RETURN(const Activation activation, ActivationOf(spec));
  return std::make_shared<Mlp>(spec, activation);
}

}  // namespace accel::engine
