#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_CHECKPOINTER_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_CHECKPOINTER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/files.h"
#include "core/engine/distributed/process_group.h"

namespace accel::engine {

// Complete checkpoints of a folder, oldest first: its sub-folders that are named by a number.
std::vector<int64_t> ListCheckpoints(const std::filesystem::path& folder);

// Writes a job's numbered checkpoints: all ranks write their files into `.<number>.incomplete`, the
// first rank of each machine, whose folder it is, adds the manifest and renames it to `<number>`.
// Whoever lists the folder sees complete checkpoints only.
class Checkpointer {
 public:
  // What one Save came to.
  struct Result {
    int64_t number = 0;
    // The rest is each machine's first rank's only.
    int64_t bytes = 0;             // of all files in the machine's folder
    std::vector<int64_t> removed;  // older checkpoints deleted
    absl::Status removal;          // whether all that are too many could be
  };

  // Keeps the newest `total_limit` checkpoints, all where it is absent. Each machine's first rank
  // creates `folder` and removes what an interrupted Save left in it.
  static absl::StatusOr<Checkpointer> Create(FileSystem& files, std::filesystem::path folder,
                                             int64_t next_number,
                                             std::optional<int32_t> total_limit,
                                             Communicator& communicator);

  // Every rank calls it at the same step. `write_files` writes this rank's files into the folder it
  // is given. Either the checkpoint is complete and all ranks get a result, or it is gone and all
  // get an error: their own, or ABORTED where another rank failed. The number is then used again.
  absl::StatusOr<Result> Save(
      int64_t step, int64_t epoch,
      const std::function<absl::Status(const std::filesystem::path& folder)>& write_files);

 private:
  Checkpointer(FileSystem& files, std::filesystem::path folder, int64_t next_number,
               std::optional<int32_t> total_limit, Communicator& communicator);

  // `own`, or ABORTED where it is OK and another rank's is not.
  absl::Status Agree(absl::Status own);
  absl::Status CreateStaging();
  absl::Status Publish(int64_t step, int64_t epoch, Result* result);
  absl::Status RemoveOldest(std::vector<int64_t>* removed);

  FileSystem& files_;
  const std::filesystem::path folder_;
  int64_t next_number_;
  const std::optional<int32_t> total_limit_;
  Communicator& communicator_;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_CHECKPOINTER_H_
