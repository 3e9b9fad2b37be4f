#include "core/engine/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "absl/strings/match.h"
#include "core/config/text_format.h"

namespace accel::engine {
namespace {

using testing::ElementsAre;

accel::v1::ModelSpec Spec(absl::string_view text) {
  accel::v1::ModelSpec spec;
  const absl::Status status = config::ParseMessage(text, &spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

std::shared_ptr<Model> Build(absl::string_view text, int64_t context = 0) {
  absl::StatusOr<std::shared_ptr<Model>> model = BuildModel(Spec(text), context);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::vector<std::string> ParameterNames(const Model& model) {
  return model.named_parameters().keys();
}

constexpr absl::string_view kMlp = "mlp: {layer_sizes: [6, 5, 3]}";
constexpr absl::string_view kConvNet =
    "convnet: {height: 5, width: 4, channels: [2, 3], num_classes: 7, dropout: 0.5}";
constexpr absl::string_view kGpt =
    "gpt: {vocab_size: 11, num_layers: 2, num_heads: 2, embedding_size: 8}";

TEST(ModelTest, MlpHasTheNamesOfASequential) {
  EXPECT_THAT(ParameterNames(*Build(kMlp)),
              ElementsAre("1.weight", "1.bias", "3.weight", "3.bias"));
  EXPECT_THAT(ParameterNames(*Build("mlp: {layer_sizes: [6, 5, 3], dropout: 0.5}")),
              ElementsAre("1.weight", "1.bias", "4.weight", "4.bias"));
  EXPECT_THAT(ParameterNames(*Build("mlp: {layer_sizes: [6, 3], dropout: 0.5}")),
              ElementsAre("1.weight", "1.bias"));
}

TEST(ModelTest, MlpFlattensItsInput) {
  const auto model = Build(kMlp);
  EXPECT_THAT(model->forward(torch::ones({4, 2, 3})).sizes(), ElementsAre(4, 3));
}

TEST(ModelTest, ConvNetHasNamesAndBuffersOfItsSequentials) {
  const auto model = Build(kConvNet);
  EXPECT_THAT(
      ParameterNames(*model),
      ElementsAre("features.0.weight", "features.0.bias", "features.1.weight", "features.1.bias",
                  "features.4.weight", "features.4.bias", "features.5.weight", "features.5.bias",
                  "classifier.2.weight", "classifier.2.bias"));
  EXPECT_THAT(model->named_buffers().keys(),
              ElementsAre("features.1.running_mean", "features.1.running_var",
                          "features.1.num_batches_tracked", "features.5.running_mean",
                          "features.5.running_var", "features.5.num_batches_tracked"));
  EXPECT_THAT(model->forward(torch::ones({2, 1, 5, 4})).sizes(), ElementsAre(2, 7));
}

TEST(ModelTest, GptTiesItsOutputWeights) {
  const auto model = Build(kGpt, 6);
  const std::vector<std::string> names = ParameterNames(*model);
  EXPECT_EQ(names.size(), 2u + 2 * 12 + 2);
  EXPECT_EQ(names[0], "transformer.wte.weight");
  EXPECT_EQ(names[4], "transformer.h.0.attn.c_attn.weight");
  EXPECT_THAT(model->named_parameters()["transformer.h.1.mlp.c_fc.weight"].sizes(),
              ElementsAre(8, 32));
  EXPECT_THAT(model->named_parameters()["transformer.wpe.weight"].sizes(), ElementsAre(6, 8));
  const at::Tensor tokens = torch::arange(10).view({2, 5});
  EXPECT_THAT(model->forward(tokens).sizes(), ElementsAre(2, 5, 11));
}

TEST(ModelTest, GptLooksOnlyBack) {
  const auto model = Build(kGpt, 6);
  model->eval();
  const at::Tensor tokens = torch::tensor({1, 2, 3, 4}, torch::kLong).unsqueeze(0);
  const at::Tensor changed = tokens.clone();
  changed[0][3] = 9;
  const at::Tensor first = model->forward(tokens), second = model->forward(changed);
  EXPECT_TRUE(torch::allclose(first.narrow(1, 0, 3), second.narrow(1, 0, 3)));
  EXPECT_FALSE(torch::allclose(first.select(1, 3), second.select(1, 3)));
}

TEST(ModelTest, SameSeedSameParameters) {
  for (const absl::string_view text : {kMlp, kConvNet, kGpt}) {
    torch::manual_seed(3);
    const auto a = Build(text, 6);
    const auto b = Build(text, 6);
    torch::manual_seed(3);
    const auto c = Build(text, 6);
    EXPECT_FALSE(torch::equal(a->parameters()[0], b->parameters()[0]));
    for (size_t i = 0; i < a->parameters().size(); ++i) {
      EXPECT_TRUE(torch::equal(a->parameters()[i], c->parameters()[i])) << text << i;
    }
  }
}

TEST(ModelTest, DropoutActsInTrainingOnly) {
  for (const absl::string_view text :
       {"mlp: {layer_sizes: [4, 64, 2], dropout: 0.5}",
        "gpt: {vocab_size: 11, num_layers: 1, num_heads: 2, embedding_size: 8, dropout: 0.5}"}) {
    const auto model = Build(text, 4);
    const at::Tensor input =
        absl::StrContains(text, "gpt") ? torch::arange(4).unsqueeze(0) : torch::ones({1, 4});
    EXPECT_FALSE(torch::equal(model->forward(input), model->forward(input))) << text;
    model->eval();
    EXPECT_TRUE(torch::equal(model->forward(input), model->forward(input))) << text;
  }
}

// Stands for a layer of another precision.
class DoubledLinear : public LayerOf<torch::nn::LinearImpl> {
 public:
  using LayerOf::LayerOf;
  at::Tensor Forward(const at::Tensor& input) override { return 2 * LayerOf::Forward(input); }
};

TEST(ModelTest, ALayerCanBeReplaced) {
  const auto model = Build(kMlp);
  const at::Tensor input = torch::ones({2, 6});
  const at::Tensor before = model->forward(input);
  const auto& old = dynamic_cast<const torch::nn::LinearImpl&>(*model->children().back());
  const auto replacement = std::make_shared<DoubledLinear>(torch::nn::LinearOptions(5, 3));
  {
    torch::NoGradGuard no_grad;
    replacement->weight.copy_(old.weight);
    replacement->bias.copy_(old.bias);
  }
  model->ReplaceLayer("3", replacement);
  EXPECT_TRUE(torch::equal(model->forward(input), 2 * before));
  EXPECT_EQ(model->parameters()[2].data_ptr(), replacement->weight.data_ptr());
  EXPECT_THAT(ParameterNames(*model), ElementsAre("1.weight", "1.bias", "3.weight", "3.bias"));
}

TEST(ModelTest, RefusesImpossibleModels) {
  for (const absl::string_view text :
       {"{}", "mlp: {layer_sizes: [3]}", "mlp: {layer_sizes: [3, 2], activation: sigmoid}",
        "convnet: {height: 3, width: 8, channels: [1, 1], num_classes: 2}",
        "convnet: {height: 8, width: 8, channels: [], num_classes: 2}",
        "gpt: {num_layers: 1, num_heads: 3, embedding_size: 8}",
        "gpt: {num_layers: 0, num_heads: 1, embedding_size: 8}"}) {
    EXPECT_EQ(BuildModel(Spec(text), 4).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_FALSE(BuildModel(Spec(kGpt), 0).ok());
}

TEST(ModelTest, ChecksTheInput) {
  const auto check = [](absl::string_view text, TargetKind kind, std::vector<int64_t> shape) {
    return std::string(CheckInput(Spec(text), kind, shape).message());
  };
  EXPECT_EQ(check(kMlp, TargetKind::kClass, {6}), "");
  EXPECT_EQ(check(kMlp, TargetKind::kClass, {2, 3}), "");
  EXPECT_EQ(check(kMlp, TargetKind::kClass, {7}),
            "model.mlp.layer_sizes starts with 6, a sample has 7 features of shape [7]");
  EXPECT_EQ(check(kConvNet, TargetKind::kClass, {1, 5, 4}), "");
  EXPECT_EQ(check(kConvNet, TargetKind::kClass, {5, 4}),
            "model.convnet takes samples of shape [1, 5, 4], those of the data have shape [5, 4]: "
            "set data.train.feature_shape where only the shape differs");
  EXPECT_EQ(check(kGpt, TargetKind::kNextToken, {9}), "");
  EXPECT_EQ(check(kGpt, TargetKind::kClass, {9}),
            "model.gpt takes tokens: it needs data of the format bytes");
  EXPECT_EQ(check(kMlp, TargetKind::kNextToken, {6}),
            "data of the format bytes are tokens: they need model.gpt");
  const absl::string_view limited =
      "gpt: {num_layers: 1, num_heads: 1, embedding_size: 8, context_length: 4}";
  EXPECT_EQ(check(limited, TargetKind::kNextToken, {4}), "");
  EXPECT_EQ(
      check(limited, TargetKind::kNextToken, {5}),
      "model.gpt takes sequences of at most 4 tokens (context_length), those of the data have "
      "shape [5]");
}

TEST(ModelTest, OutputShapes) {
  EXPECT_THAT(OutputShape(Spec(kMlp), {6}), ElementsAre(3));
  EXPECT_THAT(OutputShape(Spec(kConvNet), {1, 5, 4}), ElementsAre(7));
  EXPECT_THAT(OutputShape(Spec(kGpt), {6}), ElementsAre(6, 11));
}

}  // namespace
}  // namespace accel::engine
