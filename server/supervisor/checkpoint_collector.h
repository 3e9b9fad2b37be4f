#ifndef ACCEL_SERVER_SUPERVISOR_CHECKPOINT_COLLECTOR_H_
#define ACCEL_SERVER_SUPERVISOR_CHECKPOINT_COLLECTOR_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "accel/internal/v1/worker.pb.h"
#include "accel/v1/checkpoint.pb.h"

namespace accel::supervisor {

// A checkpoint that all ranks have reported.
struct WrittenCheckpoint {
  accel::v1::Checkpoint checkpoint;
  // Longest of the ranks.
  double stall_seconds = 0;
  // Names of those that were removed in its favour.
  std::vector<std::string> removed;
};

// Puts together what the ranks report of each checkpoint.
class CheckpointCollector {
 public:
  // Checkpoint number n of `job_name` lies in `<directory>/<n>`.
  CheckpointCollector(int world_size, std::string job_name, std::filesystem::path directory);

  // Takes one rank's report. Once all ranks have reported that number: the checkpoint.
  std::optional<WrittenCheckpoint> Add(int rank,
                                       const accel::internal::v1::CheckpointReport& report);

  // The ranks report nothing more: the checkpoints that rank 0 has completed all the same.
  std::vector<WrittenCheckpoint> TakeComplete();

 private:
  using Reports = std::map<int, accel::internal::v1::CheckpointReport>;

  WrittenCheckpoint Merge(const Reports& reports) const;
  std::string Name(int64_t number) const;

  const int world_size_;
  const std::string job_name_;
  const std::filesystem::path directory_;
  // By number, then by rank.
  std::map<int64_t, Reports> pending_;
};

// Files of a checkpoint with their digests, from its manifest.json, by path. DATA_LOSS when it is
// malformed.
absl::StatusOr<std::vector<accel::v1::Checkpoint::File>> ReadManifest(
    const std::filesystem::path& checkpoint);

// Number of a job's next checkpoint: `first`, or one above the greatest in `directory`, which need
// not exist.
int64_t NextCheckpoint(const std::filesystem::path& directory, int64_t first);

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_CHECKPOINT_COLLECTOR_H_
