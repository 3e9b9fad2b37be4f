#ifndef ACCEL_CORE_ENGINE_MODEL_LAYER_H_
#define ACCEL_CORE_ENGINE_MODEL_LAYER_H_

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace accel::engine {

// A module with one tensor in and one out.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual at::Tensor Forward(const at::Tensor& input) = 0;
};

// A LibTorch module as a layer: LayerOf<torch::nn::LinearImpl>.
template <typename ModuleImpl>
class LayerOf : public ModuleImpl, public Layer {
 public:
  using ModuleImpl::ModuleImpl;
  at::Tensor Forward(const at::Tensor& input) override { return ModuleImpl::forward(input); }
};

// A module whose children are layers. The forward of a subclass reaches them through layer(i)
// alone, so that one can be replaced by another of the same shape at any time between two forwards.
class LayerGroup : public torch::nn::Module {
 public:
  // Puts `layer` (a torch::nn::Module that is a Layer) in the place of the child `name`.
  template <typename LayerModule>
  void ReplaceLayer(const std::string& name, std::shared_ptr<LayerModule> layer) {
    replace_module(name, layer);
    for (auto& [child, current] : layers_) {
      if (child == name) current = layer;
    }
  }

 protected:
  // Appends a child.
  template <typename LayerModule>
  void AddLayer(const std::string& name, std::shared_ptr<LayerModule> layer) {
    register_module(name, layer);
    layers_.emplace_back(name, std::move(layer));
  }

  // Child number i, in the order in which they were added.
  Layer& layer(size_t i) const { return *layers_[i].second; }
  size_t num_layers() const { return layers_.size(); }

 private:
  std::vector<std::pair<std::string, std::shared_ptr<Layer>>> layers_;
};

// Layers one after the other, named by their number as torch.nn.Sequential names them. `Group` is a
// LayerGroup.
template <typename Group>
class SequentialOf : public Group {
 public:
  template <typename LayerModule>
  void Append(std::shared_ptr<LayerModule> layer) {
    this->AddLayer(std::to_string(this->num_layers()), std::move(layer));
  }

 protected:
  at::Tensor Run(at::Tensor x) const {
    for (size_t i = 0; i < this->num_layers(); ++i) x = this->layer(i).Forward(x);
    return x;
  }
};

// A sequence that is a layer of another group.
class SequentialLayers : public SequentialOf<LayerGroup>, public Layer {
 public:
  at::Tensor Forward(const at::Tensor& input) override { return Run(input); }
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_MODEL_LAYER_H_
