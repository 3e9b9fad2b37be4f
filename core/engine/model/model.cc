#include "core/engine/model/model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/engine/model/convnet.h"
#include "core/engine/model/gpt.h"
#include "core/engine/model/mlp.h"

namespace accel::engine {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status CheckMlpInput(const accel::v1::Mlp& spec, const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (const int64_t size : shape) values *= size;
  if (!spec.layer_sizes().empty() && values == spec.layer_sizes(0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.mlp.layer_sizes starts with ", spec.layer_sizes().empty() ? 0 : spec.layer_sizes(0),
      ", a sample has ", values, " features of shape ", ShapeText(shape)));
}

absl::Status CheckConvNetInput(const accel::v1::ConvNet& spec, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> wanted = {spec.has_in_channels() ? spec.in_channels() : 1,
                                       spec.height(), spec.width()};
  if (shape == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.convnet takes samples of shape ", ShapeText(wanted), ", those of the data have shape ",
      ShapeText(shape), ": set data.train.feature_shape where only the shape differs"));
}

absl::Status CheckGptInput(const accel::v1::Gpt& spec, const std::vector<int64_t>& shape) {
  if (shape.size() == 1 && (!spec.has_context_length() || shape[0] <= spec.context_length())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.gpt takes sequences of at most ",
                   spec.has_context_length() ? spec.context_length() : 0,
                   " tokens (context_length), those of the data have shape ", ShapeText(shape)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> BuildModel(const accel::v1::ModelSpec& spec,
                                                  int64_t default_context_length) {
  switch (spec.model_case()) {
    case accel::v1::ModelSpec::kMlp:
      return BuildMlp(spec.mlp());
    case accel::v1::ModelSpec::kConvnet:
      return BuildConvNet(spec.convnet());
    case accel::v1::ModelSpec::kGpt:
      return BuildGpt(spec.gpt(), default_context_length);
    case accel::v1::ModelSpec::MODEL_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("model: exactly one of mlp, convnet and gpt is required");
}

absl::Status CheckInput(const accel::v1::ModelSpec& spec, TargetKind kind,
                        const std::vector<int64_t>& feature_shape) {
  if (spec.has_gpt() != (kind == TargetKind::kNextToken)) {
    return absl::InvalidArgumentError(
        spec.has_gpt() ? "model.gpt takes tokens: it needs data of the format bytes"
                       : "data of the format bytes are tokens: they need model.gpt");
  }
  switch (spec.model_case()) {
    case accel::v1::ModelSpec::kMlp:
      return CheckMlpInput(spec.mlp(), feature_shape);
    case accel::v1::ModelSpec::kConvnet:
      return CheckConvNetInput(spec.convnet(), feature_shape);
    default:
      return CheckGptInput(spec.gpt(), feature_shape);
  }
}

std::vector<int64_t> OutputShape(const accel::v1::ModelSpec& spec,
                                 const std::vector<int64_t>& feature_shape) {
  switch (spec.model_case()) {
    case accel::v1::ModelSpec::kMlp:
      return {spec.mlp().layer_sizes(spec.mlp().layer_sizes_size() - 1)};
    case accel::v1::ModelSpec::kConvnet:
      return {spec.convnet().num_classes()};
    default:
      return {feature_shape[0], VocabSize(spec.gpt())};
  }
}

}  // namespace accel::engine
