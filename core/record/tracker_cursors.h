#ifndef ACCEL_CORE_RECORD_TRACKER_CURSORS_H_
#define ACCEL_CORE_RECORD_TRACKER_CURSORS_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/v1/tracking.pb.h"
#include "core/base/sqlite.h"

namespace accel::record {

// How far each tracker has been fed and how it stands, kept in the job's record through a
// connection of its own beside the Writer's. Not thread-safe: one for each thread. A crash of the
// machine may take the last positions back, so that rows come to a tracker again, but never leaves
// one out.
class TrackerCursors {
 public:
  // NOT_FOUND when the record does not exist yet.
  static absl::StatusOr<std::unique_ptr<TrackerCursors>> Open(const std::filesystem::path& path);

  // Sequence number of the last row that the tracker has; nothing before the first Set.
  absl::StatusOr<std::optional<int64_t>> Get(absl::string_view tracker);

  // In one transaction. After an error the position is as it was.
  absl::Status Set(absl::string_view tracker, int64_t sequence);

  // What the tracker's feed last said of itself; nothing before the first SetStatus.
  absl::StatusOr<std::optional<accel::v1::TrackerStatus>> GetStatus(absl::string_view tracker);
  absl::Status SetStatus(const accel::v1::TrackerStatus& status);

 private:
  explicit TrackerCursors(std::unique_ptr<SqliteDatabase> database);

  const std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace accel::record

#endif  // ACCEL_CORE_RECORD_TRACKER_CURSORS_H_
