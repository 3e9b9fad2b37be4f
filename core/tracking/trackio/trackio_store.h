#ifndef ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_STORE_H_
#define ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_STORE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/files.h"
#include "core/tracking/http/json_api.h"

namespace accel::tracking {

// A row as each of Trackio's three ways in takes it.
struct TrackioRow {
  // JSON object.
  std::string metrics;
  int64_t step = 0;
  // ISO 8601, UTC.
  std::string timestamp;
  // The same for the same row, so that it is stored once.
  std::string log_id;
};

// A run as Trackio tells them apart.
struct TrackioRun {
  std::string project;
  std::string name;
  std::string id;
  // JSON object.
  std::string config;
  std::string created;
};

// A way into Trackio. Used by one thread; each call may be repeated.
class TrackioStore {
 public:
  virtual ~TrackioStore() = default;
  virtual absl::Status Add(const TrackioRun& run, const std::vector<TrackioRow>& rows) = 0;
  // Where it is, for people.
  virtual std::string location() const = 0;

  // `<folder>/<project>.db`, under the lock file that the package takes.
  static std::unique_ptr<TrackioStore> Sqlite(const std::filesystem::path& folder,
                                              const std::string& project);
  // A fragment for each call in `<folder>/inbox/<writer>`, which a dashboard imports.
  static std::unique_ptr<TrackioStore> Inbox(const std::filesystem::path& folder,
                                             const std::string& writer, FileSystem* files);
  // The package's own server.
  static std::unique_ptr<TrackioStore> Server(JsonApi api);
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_TRACKIO_TRACKIO_STORE_H_
