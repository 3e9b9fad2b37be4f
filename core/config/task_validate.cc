#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::ConvNet;
using accel::v1::Dataset;
using accel::v1::Gpt;
using accel::v1::JobSpec;
using accel::v1::LossSpec;
using accel::v1::ModelSpec;

void CheckGpt(const Gpt& gpt, const std::string& path, FieldViolations* violations) {
  const int heads = gpt.num_heads();
  if (heads >= 1 && gpt.embedding_size() >= 1 && gpt.embedding_size() % heads != 0) {
    violations->Add(FieldPath(path, "num_heads"),
                    NotAllowed(absl::StrCat(heads),
                               absl::StrCat("divisors of embedding_size, ", gpt.embedding_size())));
  }
}

void CheckConvNet(const ConvNet& net, const std::string& path, FieldViolations* violations) {
  // More blocks than bits in a size leave nothing, as the last of them does.
  const int halvings = std::min(net.channels_size(), 31);
  const auto check = [&](int size, absl::string_view field) {
    if (size >= 1 && (size >> halvings) < 1) {
      violations->Add(FieldPath(path, field),
                      NotAllowed(absl::StrCat(size),
                                 absl::StrCat("at least 2 to the power of ", net.channels_size(),
                                              ", the number of blocks that halve it")));
    }
  };
  check(net.height(), "height");
  check(net.width(), "width");
}

// Features of a sample that the model takes; 0 where it takes any number.
int64_t InputSize(const ModelSpec& model) {
  if (model.has_mlp() && model.mlp().layer_sizes_size() > 0) return model.mlp().layer_sizes(0);
  if (!model.has_convnet()) return 0;
  const ConvNet& net = model.convnet();
  const int64_t channels = net.has_in_channels() ? net.in_channels() : 1;
  return channels * net.height() * net.width();
}

void CheckFeatures(const ModelSpec& model, const Dataset& dataset, const std::string& path,
                   FieldViolations* violations) {
  if (dataset.has_bytes() != model.has_gpt()) {
    violations->Add(path, model.has_gpt() ? "the gpt model needs data in the bytes format"
                                          : "data in the bytes format needs the gpt model");
    return;
  }
  if (model.has_gpt() && model.gpt().has_context_length() &&
      dataset.bytes().sequence_length() > model.gpt().context_length()) {
    violations->Add(FieldPath(path, "bytes.sequence_length"),
                    NotAllowed(absl::StrCat(dataset.bytes().sequence_length()),
                               absl::StrCat("at most model.gpt.context_length, ",
                                            model.gpt().context_length())));
  }
  const double features = std::accumulate(dataset.feature_shape().begin(),
                                          dataset.feature_shape().end(), 1.0, std::multiplies<>());
  const int64_t input = InputSize(model);
  if (dataset.feature_shape_size() > 0 && input > 0 && features != static_cast<double>(input)) {
    violations->Add(FieldPath(path, "feature_shape"),
                    NotAllowed(absl::StrCat(features, " features"),
                               absl::StrCat(input, ", the model's input")));
  }
}

// The field that holds the number of values of the model's output, and that number.
std::pair<std::string, int> Output(const ModelSpec& model) {
  if (model.has_convnet()) return {"model.convnet.num_classes", model.convnet().num_classes()};
  const int layers = model.mlp().layer_sizes_size();
  return {absl::StrCat("model.mlp.layer_sizes[", layers - 1, "]"),
          layers == 0 ? 0 : model.mlp().layer_sizes(layers - 1)};
}

bool HasOneTarget(const Dataset& dataset) {
  return dataset.has_csv() || dataset.has_idx() ||
         (dataset.has_npy() && !dataset.npy().has_target_file());
}

void CheckLoss(const JobSpec& spec, FieldViolations* violations) {
  const LossSpec& loss = spec.loss();
  if (loss.loss_case() == LossSpec::LOSS_NOT_SET) return;
  if (loss.has_next_token() != spec.model().has_gpt()) {
    violations->Add("loss", spec.model().has_gpt() ? "the gpt model needs next_token"
                                                   : "next_token needs the gpt model");
    return;
  }
  const auto [field, size] = Output(spec.model());
  if (loss.has_mse() && size > 1 && HasOneTarget(spec.data().train())) {
    violations->Add(field, NotAllowed(absl::StrCat(size),
                                      "1 with the mse loss and data of one target a sample"));
  }
}

}  // namespace

void CheckModel(const ModelSpec& model, absl::string_view path, FieldViolations* violations) {
  if (model.has_gpt()) CheckGpt(model.gpt(), FieldPath(path, "gpt"), violations);
  if (model.has_convnet()) CheckConvNet(model.convnet(), FieldPath(path, "convnet"), violations);
}

void CheckTask(const JobSpec& spec, FieldViolations* violations) {
  if (spec.model().model_case() == ModelSpec::MODEL_NOT_SET) return;
  const auto check = [&](bool present, const Dataset& dataset, const std::string& path) {
    if (present && dataset.format_case() != Dataset::FORMAT_NOT_SET) {
      CheckFeatures(spec.model(), dataset, path, violations);
    }
  };
  check(spec.data().has_train(), spec.data().train(), "data.train");
  check(spec.data().has_evaluation(), spec.data().evaluation(), "data.evaluation");
  CheckLoss(spec, violations);
}

void CheckMetric(const JobSpec& spec, absl::string_view metric, absl::string_view path,
                 FieldViolations* violations) {
  const auto refuse = [&](absl::string_view reason) {
    violations->Add(path, absl::StrCat(Quoted(metric), " ", reason));
  };
  if (absl::StartsWith(metric, "eval/") && spec.has_data() && !spec.data().has_evaluation() &&
      !spec.data().has_split()) {
    refuse("needs data.evaluation or data.split: there is no held-out data");
  }
  if (spec.loss().loss_case() == LossSpec::LOSS_NOT_SET) return;
  if (metric == "eval/accuracy" && !spec.loss().has_cross_entropy()) {
    refuse("needs loss.cross_entropy");
  }
  if (metric == "eval/perplexity" && !spec.loss().has_next_token()) {
    refuse("needs loss.next_token");
  }
}

}  // namespace accel::config
