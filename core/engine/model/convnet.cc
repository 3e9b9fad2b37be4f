#include "core/engine/model/convnet.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "absl/strings/str_cat.h"

namespace accel::engine {
namespace {

namespace nn = torch::nn;

// Size of a picture's side after every block's pooling.
int64_t PooledSize(const accel::v1::ConvNet& spec, int64_t size) {
  for (int i = 0; i < spec.channels_size(); ++i) size /= 2;
  return size;
}

int64_t InChannels(const accel::v1::ConvNet& spec) {
  return spec.has_in_channels() ? spec.in_channels() : 1;
}

std::shared_ptr<SequentialLayers> MakeFeatures(const accel::v1::ConvNet& spec) {
  auto features = std::make_shared<SequentialLayers>();
  int64_t in = InChannels(spec);
  for (const int64_t out : spec.channels()) {
    features->Append(
        std::make_shared<LayerOf<nn::Conv2dImpl>>(nn::Conv2dOptions(in, out, 3).padding(1)));
    features->Append(std::make_shared<LayerOf<nn::BatchNorm2dImpl>>(nn::BatchNormOptions(out)));
    features->Append(std::make_shared<LayerOf<nn::ReLUImpl>>());
    features->Append(std::make_shared<LayerOf<nn::MaxPool2dImpl>>(nn::MaxPool2dOptions(2)));
    in = out;
  }
  return features;
}

std::shared_ptr<SequentialLayers> MakeClassifier(const accel::v1::ConvNet& spec, int64_t inputs) {
  auto classifier = std::make_shared<SequentialLayers>();
  classifier->Append(std::make_shared<LayerOf<nn::FlattenImpl>>());
  if (spec.dropout() > 0) {
    classifier->Append(
        std::make_shared<LayerOf<nn::DropoutImpl>>(nn::DropoutOptions(spec.dropout())));
  }
  classifier->Append(
      std::make_shared<LayerOf<nn::LinearImpl>>(nn::LinearOptions(inputs, spec.num_classes())));
  return classifier;
}

class ConvNet : public Model {
 public:
  ConvNet(const accel::v1::ConvNet& spec, int64_t classifier_inputs) {
    AddLayer("features", MakeFeatures(spec));
    AddLayer("classifier", MakeClassifier(spec, classifier_inputs));
  }

  at::Tensor forward(at::Tensor input) override {
    return layer(1).Forward(layer(0).Forward(input));
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> BuildConvNet(const accel::v1::ConvNet& spec) {
  const int64_t height = PooledSize(spec, spec.height());
  const int64_t width = PooledSize(spec, spec.width());
  if (spec.channels().empty() || height < 1 || width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.convnet: ", spec.height(), " x ", spec.width(), " pixels, halved ",
                     spec.channels_size(),
                     " times, must leave at least 1 x 1, and channels must "
                     "not be empty"));
  }
  if (spec.num_classes() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("model.convnet.num_classes is ",
                                                   spec.num_classes(), ", at least 1 is needed"));
  }
  const int64_t channels = spec.channels(spec.channels_size() - 1);
  return std::make_shared<ConvNet>(spec, channels * height * width);
}

}  // namespace accel::engine
