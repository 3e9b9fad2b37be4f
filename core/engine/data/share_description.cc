#include "core/engine/data/share_description.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/data/dispatcher.h"

namespace accel::engine {

absl::Status ShareDescription(Communicator& communicator, at::Device device,
                              std::shared_ptr<const Dataset>* dataset) {
  using nlohmann::json;
  std::string text;
  if (communicator.rank() == 0) {
    const DatasetDescription own = Describe(**dataset);
    text = json{{"target_kind", static_cast<int>(own.target_kind)},
                {"size", own.size},
                {"feature_shape", own.feature_shape},
                {"target_shape", own.target_shape},
                {"num_classes", own.num_classes}}
               .dump();
  }
  text = BroadcastText(communicator, device, text);
  if (communicator.rank() == 0) return absl::OkStatus();
  const json document = json::parse(text);
  DatasetDescription description;
  description.target_kind = static_cast<TargetKind>(document.at("target_kind").get<int>());
  description.size = document.at("size").get<int64_t>();
  description.feature_shape = document.at("feature_shape").get<std::vector<int64_t>>();
  description.target_shape = document.at("target_shape").get<std::vector<int64_t>>();
  description.num_classes = document.at("num_classes").get<int64_t>();
  *dataset = std::make_shared<DescribedDataset>(std::move(description));
  return absl::OkStatus();
}

}  // namespace accel::engine
