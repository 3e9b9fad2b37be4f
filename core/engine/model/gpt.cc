#include "core/engine/model/gpt.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

namespace nn = torch::nn;

constexpr double kInitStd = 0.02;

struct GptSizes {
  int64_t vocab_size;
  int64_t context_length;
  int64_t num_layers;
  int64_t num_heads;
  int64_t width;
  double dropout;

  // The residual projections add up over the depth.
  double residual_std() const {
    return kInitStd / std::sqrt(2.0 * static_cast<double>(num_layers));
  }
};

// Hugging Face's Conv1D: a linear layer whose weight is [in, out].
class Conv1D : public nn::Module, public Layer {
 public:
  Conv1D(int64_t in, int64_t out, double std) {
    weight_ = register_parameter("weight", nn::init::normal_(torch::empty({in, out}), 0.0, std));
    bias_ = register_parameter("bias", torch::zeros({out}));
  }

  at::Tensor Forward(const at::Tensor& input) override {
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = weight_.size(1);
    return at::addmm(bias_, input.reshape({-1, weight_.size(0)}), weight_).view(shape);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

std::shared_ptr<LayerOf<nn::EmbeddingImpl>> MakeEmbedding(int64_t rows, int64_t width) {
  // With a weight given, the module draws none of its own.
  return std::make_shared<LayerOf<nn::EmbeddingImpl>>(
      nn::EmbeddingOptions(rows, width)
          ._weight(nn::init::normal_(torch::empty({rows, width}), 0.0, kInitStd)));
}

std::shared_ptr<LayerOf<nn::LayerNormImpl>> MakeLayerNorm(int64_t width) {
  return std::make_shared<LayerOf<nn::LayerNormImpl>>(nn::LayerNormOptions({width}));
}

std::shared_ptr<LayerOf<nn::DropoutImpl>> MakeDropout(double probability) {
  return std::make_shared<LayerOf<nn::DropoutImpl>>(nn::DropoutOptions(probability));
}

class Attention : public LayerGroup, public Layer {
 public:
  explicit Attention(const GptSizes& sizes) : sizes_(sizes) {
    AddLayer("c_attn", std::make_shared<Conv1D>(sizes.width, 3 * sizes.width, kInitStd));
    AddLayer("c_proj", std::make_shared<Conv1D>(sizes.width, sizes.width, sizes.residual_std()));
    AddLayer("resid_dropout", MakeDropout(sizes.dropout));
  }

  at::Tensor Forward(const at::Tensor& input) override {
    const int64_t batch = input.size(0);
    const int64_t length = input.size(1);
    const std::vector<at::Tensor> parts = layer(kInput).Forward(input).split(sizes_.width, 2);
    const auto heads = [&](const at::Tensor& part) {
      return part.view({batch, length, sizes_.num_heads, sizes_.width / sizes_.num_heads})
          .transpose(1, 2);
    };
    const at::Tensor mixed = at::scaled_dot_product_attention(
        heads(parts[0]), heads(parts[1]), heads(parts[2]), /*attn_mask=*/{},
        is_training() ? sizes_.dropout : 0.0, /*is_causal=*/true);
    const at::Tensor merged = mixed.transpose(1, 2).reshape({batch, length, sizes_.width});
    return layer(kResidualDropout).Forward(layer(kOutput).Forward(merged));
  }

 private:
  enum Child { kInput, kOutput, kResidualDropout };

  const GptSizes sizes_;
};

class FeedForward : public LayerGroup, public Layer {
 public:
  explicit FeedForward(const GptSizes& sizes) {
    AddLayer("c_fc", std::make_shared<Conv1D>(sizes.width, 4 * sizes.width, kInitStd));
    AddLayer("c_proj",
             std::make_shared<Conv1D>(4 * sizes.width, sizes.width, sizes.residual_std()));
    AddLayer("act", std::make_shared<LayerOf<nn::GELUImpl>>(nn::GELUOptions().approximate("tanh")));
    AddLayer("dropout", MakeDropout(sizes.dropout));
  }

  at::Tensor Forward(const at::Tensor& input) override {
    const at::Tensor inner = layer(kActivation).Forward(layer(kInput).Forward(input));
    return layer(kDropout).Forward(layer(kOutput).Forward(inner));
  }

 private:
  enum Child { kInput, kOutput, kActivation, kDropout };
};

class Block : public LayerGroup, public Layer {
 public:
  explicit Block(const GptSizes& sizes) {
    AddLayer("ln_1", MakeLayerNorm(sizes.width));
    AddLayer("attn", std::make_shared<Attention>(sizes));
    AddLayer("ln_2", MakeLayerNorm(sizes.width));
    AddLayer("mlp", std::make_shared<FeedForward>(sizes));
  }

  at::Tensor Forward(const at::Tensor& input) override {
    const at::Tensor attended = input + layer(kAttention).Forward(layer(kNorm1).Forward(input));
    return attended + layer(kFeedForward).Forward(layer(kNorm2).Forward(attended));
  }

 private:
  enum Child { kNorm1, kAttention, kNorm2, kFeedForward };
};

class Transformer : public LayerGroup, public Layer {
 public:
  explicit Transformer(const GptSizes& sizes)
      : token_embedding_(MakeEmbedding(sizes.vocab_size, sizes.width)) {
    AddLayer("wte", token_embedding_);
    AddLayer("wpe", MakeEmbedding(sizes.context_length, sizes.width));
    AddLayer("drop", MakeDropout(sizes.dropout));
    auto blocks = std::make_shared<SequentialLayers>();
    for (int64_t i = 0; i < sizes.num_layers; ++i) blocks->Append(std::make_shared<Block>(sizes));
    AddLayer("h", blocks);
    AddLayer("ln_f", MakeLayerNorm(sizes.width));
  }

  // Tokens int64 [n, length] to hidden states [n, length, width].
  at::Tensor Forward(const at::Tensor& tokens) override {
    const at::Tensor positions = at::arange(tokens.size(1), tokens.options());
    const at::Tensor embedded =
        layer(kTokens).Forward(tokens) + layer(kPositions).Forward(positions);
    return layer(kNorm).Forward(layer(kBlocks).Forward(layer(kDropout).Forward(embedded)));
  }

  const at::Tensor& token_weight() const { return token_embedding_->weight; }

 private:
  enum Child { kTokens, kPositions, kDropout, kBlocks, kNorm };

  // The output layer shares its weight, so it alone cannot be replaced.
  const std::shared_ptr<LayerOf<nn::EmbeddingImpl>> token_embedding_;
};

class Gpt : public Model {
 public:
  explicit Gpt(const GptSizes& sizes) : transformer_(std::make_shared<Transformer>(sizes)) {
    AddLayer("transformer", transformer_);
  }

  at::Tensor forward(at::Tensor input) override {
    return at::linear(transformer_->Forward(input), transformer_->token_weight());
  }

 private:
  const std::shared_ptr<Transformer> transformer_;
};

}  // namespace

int64_t VocabSize(const accel::v1::Gpt& spec) {
  return spec.has_vocab_size() ? spec.vocab_size() : 256;
}

absl::StatusOr<std::shared_ptr<Model>> BuildGpt(const accel::v1::Gpt& spec,
                                                int64_t default_context_length) {
  const GptSizes sizes = {
      .vocab_size = VocabSize(spec),
      .context_length = spec.has_context_length() ? spec.context_length() : default_context_length,
      .num_layers = spec.num_layers(),
      .num_heads = spec.num_heads(),
      .width = spec.embedding_size(),
      .dropout = spec.dropout()};
  if (sizes.vocab_size < 1 || sizes.context_length < 1 || sizes.num_layers < 1 ||
      sizes.num_heads < 1 || sizes.width < 1 || sizes.width % sizes.num_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.gpt: vocab_size ", sizes.vocab_size, ", context_length ", sizes.context_length,
        ", num_layers ", sizes.num_layers, ", num_heads ", sizes.num_heads, " and embedding_size ",
        sizes.width, " must be at least 1, and num_heads must divide embedding_size"));
  }
  return std::make_shared<Gpt>(sizes);
}

}  // namespace accel::engine
