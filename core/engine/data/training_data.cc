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

}  // namespace

absl::StatusOr<TrainingData> LoadTrainingData(const accel::v1::DataSpec& spec, TargetKind kind,
                                              const DataRoots& roots, int64_t ignore_index) {
  TrainingData data;
  ACCEL_ASSIGN_OR_RETURN(data.train, LoadDataset(spec.train(), kind, roots, ignore_index));
  if (spec.has_split()) {
    ACCEL_ASSIGN_OR_RETURN(SplitIndices parts, RandomSplit(data.train->size(), spec.split()));
    data.evaluation = std::make_shared<SubsetDataset>(data.train, std::move(parts.evaluation));
    data.train = std::make_shared<SubsetDataset>(data.train, std::move(parts.train));
  } else if (spec.has_evaluation()) {
    ACCEL_ASSIGN_OR_RETURN(data.evaluation,
                           LoadDataset(spec.evaluation(), kind, roots, ignore_index));
    ACCEL_RETURN_IF_ERROR(
        CheckSameShape("features", data.train->feature_shape(), data.evaluation->feature_shape()));
    ACCEL_RETURN_IF_ERROR(
        CheckSameShape("targets", data.train->target_shape(), data.evaluation->target_shape()));
  }
  return data;
}

}  // namespace accel::engine
