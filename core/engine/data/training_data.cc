#include "core/engine/data/training_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/data/split.h"

namespace accel::engine {
namespace {

absl::Status CheckSameShape(absl::string_view what, const std::vector<int64_t>& train,
                            const std::vector<int64_t>& evaluation) {
  if (train == evaluation) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.evaluation has ", what, " of shape [", absl::StrJoin(evaluation, ", "),
                   "], data.train of [", absl::StrJoin(train, ", "), "]"));
}

// Reads one sample to learn of the others.
absl::StatusOr<DatasetDescription> DescribeStream(const OpenStream& open, TargetKind kind,
                                                  absl::string_view file) {
  ACCEL_ASSIGN_OR_RETURN(const std::unique_ptr<SampleStream> stream, open());
  ACCEL_ASSIGN_OR_RETURN(const Examples first, stream->Read(1));
  if (!first.features.defined()) return MalformedData(file, "has no sample");
  return DatasetDescription{.target_kind = kind,
                            .size = 0,
                            .feature_shape = first.features.sizes().slice(1).vec(),
                            .target_shape = first.targets.sizes().slice(1).vec(),
                            .num_classes = 0};
}

absl::Status LoadTrain(const accel::v1::DataSpec& spec, TargetKind kind, const DataRoots& roots,
                       int64_t ignore_index, TrainingData* data) {
  if (!spec.has_streaming()) {
    ACCEL_ASSIGN_OR_RETURN(data->train, LoadDataset(spec.train(), kind, roots, ignore_index));
    return absl::OkStatus();
  }
  data->train_stream = [train = spec.train(), kind, roots, ignore_index] {
    return OpenSampleStream(train, kind, roots, ignore_index);
  };
  ACCEL_ASSIGN_OR_RETURN(DatasetDescription description,
                         DescribeStream(data->train_stream, kind, spec.train().file()));
  data->train = std::make_shared<DescribedDataset>(std::move(description));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingData> LoadTrainingData(const accel::v1::DataSpec& spec, TargetKind kind,
                                              const DataRoots& roots, const DataToRead& read,
                                              int64_t ignore_index) {
  TrainingData data;
  if (read.train) ACCEL_RETURN_IF_ERROR(LoadTrain(spec, kind, roots, ignore_index, &data));
  if (spec.has_split() && read.train) {
    ACCEL_ASSIGN_OR_RETURN(SplitIndices parts, RandomSplit(data.train->size(), spec.split()));
    data.evaluation = std::make_shared<SubsetDataset>(data.train, std::move(parts.evaluation));
    data.train = std::make_shared<SubsetDataset>(data.train, std::move(parts.train));
  } else if (spec.has_evaluation() && read.evaluation) {
    ACCEL_ASSIGN_OR_RETURN(data.evaluation,
                           LoadDataset(spec.evaluation(), kind, roots, ignore_index));
  }
  if (data.train != nullptr) ACCEL_RETURN_IF_ERROR(CheckSameShapes(data));
  return data;
}

absl::Status CheckSameShapes(const TrainingData& data) {
  if (data.evaluation == nullptr) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(
      CheckSameShape("features", data.train->feature_shape(), data.evaluation->feature_shape()));
  return CheckSameShape("targets", data.train->target_shape(), data.evaluation->target_shape());
}

}  // namespace accel::engine
