#ifndef ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_TRACKER_H_
#define ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_TRACKER_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "accel/internal/v1/tracker_plugin.pb.h"
#include "accel/v1/tracker.pb.h"
#include "core/tracking/factory.h"
#include "core/tracking/plugin/plugin_process.h"
#include "core/tracking/tracker.h"

namespace accel::tracking {

// A tracker that the operator registered as a shared object (accel_tracker.h), in a process of its
// own. When that ends it is started again at the next call, and told the run and the configuration
// again first.
class PluginTracker final : public Tracker {
 public:
  PluginTracker(const accel::v1::CustomTracker& spec, accel::internal::v1::TrackerPlugin plugin,
                const TrackerContext& context);

  absl::string_view name() const override { return plugin_.name(); }
  bool requires_logging_directory() const override { return plugin_.requires_logging_directory(); }
  bool main_process_only() const override { return plugin_.main_process_only(); }
  bool wants_configuration_at_each_start() const override { return true; }
  Rewind rewind() const override;
  std::string location() const override { return run_.folder(); }

  absl::Status Start(std::optional<int64_t> resume_step) override;
  absl::Status StoreInitConfiguration(const ConfigMap& values) override;
  absl::Status Log(const std::vector<LogCall>& calls) override;
  absl::Status OnRewind(int64_t step) override;
  absl::Status Finish(RunOutcome outcome) override;

 private:
  absl::Status EnsureProcess();
  absl::Status Call(const accel::internal::v1::ToTrackerPlugin& call);

  const accel::internal::v1::TrackerPlugin plugin_;
  const TrackerContext context_;
  accel::internal::v1::PluginRun run_;
  std::optional<accel::internal::v1::PluginValues> configuration_;
  std::unique_ptr<PluginProcess> process_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_PLUGIN_PLUGIN_TRACKER_H_
