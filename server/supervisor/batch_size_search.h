#ifndef ACCEL_SERVER_SUPERVISOR_BATCH_SIZE_SEARCH_H_
#define ACCEL_SERVER_SUPERVISOR_BATCH_SIZE_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "accel/v1/job.pb.h"

namespace accel::supervisor {

// The batch sizes of a job's attempts, as accelerate.utils.find_executable_batch_size chooses them.
class BatchSizeSearch {
 public:
  // Without find_executable_batch_size in the job there is one size.
  explicit BatchSizeSearch(const accel::v1::JobSpec& spec);

  bool active() const { return factor_.has_value(); }
  // Size of the next attempt, or of the one under way.
  int batch_size() const { return sizes_.back().batch_size; }

  // Size before a Reduce that gave another one.
  int previous_batch_size() const { return sizes_[sizes_.size() - 2].batch_size; }

  // An attempt with batch_size() failed after `steps_done` steps. Whether there is to be another
  // one, with the next smaller size: only after lack of memory, and above 0.
  bool Reduce(const accel::v1::Failure& failure, int64_t steps_done);

  // The job's failure, where the last attempt failed with `failure`: once the sizes are used up it
  // says which were tried, and whether none ever trained a step or one failed later.
  accel::v1::Failure Explain(accel::v1::Failure failure) const;

 private:
  struct Size {
    int batch_size = 0;
    // Steps that its attempt had done when it failed.
    int64_t steps_done = 0;
  };

  std::optional<double> factor_;
  bool used_up_ = false;
  // Oldest first, at least one.
  std::vector<Size> sizes_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_BATCH_SIZE_SEARCH_H_
