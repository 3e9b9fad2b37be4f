#ifndef ACCEL_CORE_RECORD_READER_H_
#define ACCEL_CORE_RECORD_READER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "accel/internal/v1/supervisor.pb.h"
#include "accel/v1/checkpoint.pb.h"
#include "accel/v1/telemetry.pb.h"
#include "accel/v1/tracking.pb.h"

namespace accel::record {

// Bounds of one read: whichever comes first, but at least one row.
struct ReadLimits {
  int rows = 512;
  int64_t bytes = 256 << 10;
};

// Rows of one kind, in order.
template <typename Record>
struct Rows {
  std::vector<Record> records;
  // Every row of this kind up to here was returned or skipped: where the next read goes on. At the
  // end of the record this is its last sequence number, whatever kind that row has, and never less
  // than the `after` that was asked for.
  int64_t next_after = 0;
};

// Reads a job's record while the supervisor writes it, each call one consistent snapshot. Holds no
// transaction between calls. Not thread-safe; opening is cheap (well below a millisecond).
class Reader {
 public:
  // NOT_FOUND when the record does not exist yet.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::filesystem::path& path);

  virtual ~Reader() = default;

  // Rows whose sequence is greater than `after`.
  virtual absl::StatusOr<Rows<accel::v1::MetricRecord>> ReadMetrics(int64_t after,
                                                                    ReadLimits limits = {}) = 0;
  virtual absl::StatusOr<Rows<accel::v1::LogRecord>> ReadLogs(int64_t after,
                                                              ReadLimits limits = {}) = 0;
  virtual absl::StatusOr<Rows<accel::v1::EventRecord>> ReadEvents(int64_t after,
                                                                  ReadLimits limits = {}) = 0;

  // NOT_FOUND before the supervisor's first commit.
  virtual absl::StatusOr<accel::internal::v1::JobStatus> ReadStatus() = 0;

  // Complete checkpoints, newest first.
  virtual absl::StatusOr<std::vector<accel::v1::Checkpoint>> ListCheckpoints() = 0;

  // How each tracker stands, by name, with the rows of metrics that it has not got yet.
  virtual absl::StatusOr<std::vector<accel::v1::TrackerStatus>> ListTrackers() = 0;

  // Greatest committed number; 0 for an empty record.
  virtual absl::StatusOr<int64_t> LastSequence() = 0;
};

}  // namespace accel::record

#endif  // ACCEL_CORE_RECORD_READER_H_
