#ifndef ACCEL_CORE_TRACKING_WANDB_WANDB_STREAM_H_
#define ACCEL_CORE_TRACKING_WANDB_WANDB_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/wandb.pb.h"
#include "core/tracking/http/json_api.h"
#include "core/tracking/wandb/wandb_items.h"
#include "core/tracking/wandb/wandb_log.h"

namespace accel::tracking {

// A run on a W&B server: made by a GraphQL mutation, its history sent as lines with their numbers,
// so that what is sent again is the same line.
class WandBStream {
 public:
  explicit WandBStream(JsonApi api) : api_(std::move(api)) {}

  // Makes or finds the run. Returns how many lines of history the server has.
  absl::StatusOr<int64_t> Open(const accel::internal::v1::wandb::RunRecord& run);

  // Replaces the configuration, values by their path as JSON text.
  absl::Status SetConfig(const accel::internal::v1::wandb::RunRecord& run,
                         const WandBItems& config);

  // Sends the log's lines, within the service's limits, and drops each that was taken. `base` is
  // the number that the log's line 0 has on the server.
  absl::Status SendLines(int64_t base, WandBLog* log);

  // Says that the run has ended.
  absl::Status Complete(int exit_code);

  // Where people see the run; empty before Open.
  const std::string& location() const { return location_; }

 private:
  absl::StatusOr<nlohmann::json> Upsert(const nlohmann::json& variables);
  // `files` is the inside of a JSON object.
  absl::Status SendFiles(const std::string& body);

  JsonApi api_;
  std::string stream_path_;
  std::string location_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_WANDB_WANDB_STREAM_H_
