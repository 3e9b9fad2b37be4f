#ifndef ACCEL_CORE_TRACKING_FACTORY_H_
#define ACCEL_CORE_TRACKING_FACTORY_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "accel/internal/v1/tracker_plugin.pb.h"
#include "accel/v1/tracker.pb.h"
#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/tracking/http/http_client.h"
#include "core/tracking/tracker.h"
#include "core/tracking/tracker_settings.h"

namespace accel::tracking {

// What a tracker learns of its job.
struct TrackerContext {
  // TrackingSpec.project, or its default.
  std::string project;
  std::string job_id;
  // Unique for ever, so that runs can be found again by what is made from it.
  std::string job_uid;
  // When the job was accepted.
  absl::Time create_time;
  std::string host_name;
  TrackerSettings settings;
  // Addresses of the registered custom trackers by name.
  std::map<std::string, std::string> custom;
  // The registered plug-ins by name, and the program that holds one (see plugin_process.h).
  std::map<std::string, accel::internal::v1::TrackerPlugin> plugins;
  std::filesystem::path plugin_host;
  // `trackers` in the job's folder. A tracker that keeps files does so in a folder with its own
  // name in it; TensorBoard's `--logdir` is `<folder>/tensorboard`, the run `<project>` in it.
  std::filesystem::path folder;
  const Clock* clock = &Clock::Real();
  FileSystem* files = &FileSystem::Real();
  std::function<std::unique_ptr<HttpClient>(const HttpOptions&)> make_http = &HttpClient::Make;
};

// Makes the trackers that a spec stands for; beside the tracker of a service, which bears the
// spec's name, the one that writes the archive that the service's own package can upload later
// (`<name>_archive`), with a cursor of its own so that it is complete whatever becomes of the
// service; none for a tracker that is disabled. Errors are MakeTracker's.
absl::StatusOr<std::vector<std::unique_ptr<Tracker>>> MakeTrackers(
    const accel::v1::TrackerSpec& spec, const TrackerContext& context);

// The same for the kinds that are one tracker. Touches neither files nor the network. UNIMPLEMENTED
// for the other kinds, INVALID_ARGUMENT for a spec without a kind and for names that would leave
// the folder.
absl::StatusOr<std::unique_ptr<Tracker>> MakeTracker(const accel::v1::TrackerSpec& spec,
                                                     const TrackerContext& context);

// Longest time that a row may wait for others before the tracker gets it.
absl::Duration BatchDelay(const accel::v1::TrackerSpec& spec);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_FACTORY_H_
