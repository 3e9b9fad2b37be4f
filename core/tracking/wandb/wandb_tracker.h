#ifndef ACCEL_CORE_TRACKING_WANDB_WANDB_TRACKER_H_
#define ACCEL_CORE_TRACKING_WANDB_WANDB_TRACKER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "accel/internal/v1/wandb.pb.h"
#include "accel/v1/tracker.pb.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/tracking/factory.h"
#include "core/tracking/tracker.h"
#include "core/tracking/wandb/wandb_log.h"
#include "core/tracking/wandb/wandb_stream.h"

namespace accel::tracking {

// Weights & Biases. Always writes the run's transaction log, from which `wandb sync` can upload it;
// online, sends the same lines to the server. Rows of the record with one step become one row,
// which is written when a greater step comes; a smaller step cannot be expressed, and is left out
// with a warning. Numbers, texts and maps of numbers are all kept.
class WandBTracker final : public Tracker {
 public:
  enum class Mode { kOnline, kOffline, kDisabled };
  struct Options {
    Mode mode = Mode::kOnline;
    // The package's `wandb` folder is made in it.
    std::filesystem::path folder;
    accel::internal::v1::wandb::RunRecord run;
    std::string base_url;
    std::string api_key_secret;
  };

  // From the job's options, then the node's settings (WANDB_MODE, WANDB_ENTITY, WANDB_NAME,
  // WANDB_RUN_GROUP, WANDB_JOB_TYPE, WANDB_TAGS, WANDB_NOTES, WANDB_BASE_URL), then W&B's defaults.
  static absl::StatusOr<std::unique_ptr<Tracker>> Make(const accel::v1::WandBTracker& spec,
                                                       const TrackerContext& context);

  WandBTracker(Options options, const TrackerContext& context);

  absl::string_view name() const override { return "wandb"; }
  bool requires_logging_directory() const override { return false; }
  Rewind rewind() const override { return Rewind::kKeepsFirst; }
  std::optional<int64_t> held_from() const override;
  std::string location() const override;

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status Finish(RunOutcome outcome) override;
  std::vector<std::string> TakeWarnings() override { return std::exchange(warnings_, {}); }

 private:
  // Rows of the record with one step.
  struct OpenRow {
    int64_t step = 0;
    absl::Time time;
    WandBItems items;
    int64_t first_sequence = 0;
    int64_t last_sequence = 0;
  };

  absl::Status OpenStream();
  void Take(const LogCall& call);
  void CloseRow();
  absl::Status Deliver();
  std::filesystem::path RunFolder() const;
  void WarnOnce(const std::string& what, std::string message);

  const Options options_;
  const TrackerContext context_;
  const absl::Time start_time_;
  std::unique_ptr<WandBStream> stream_;
  // Number that the log's first line has on the server.
  int64_t base_line_ = 0;
  // First line of the log that the server did not have.
  int64_t first_unsent_ = 0;
  std::optional<WandBLog> log_;
  std::optional<OpenRow> open_;
  bool complete_sent_ = false;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_WANDB_WANDB_TRACKER_H_
