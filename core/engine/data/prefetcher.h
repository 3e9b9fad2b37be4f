#ifndef ACCEL_CORE_ENGINE_DATA_PREFETCHER_H_
#define ACCEL_CORE_ENGINE_DATA_PREFETCHER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/data/batch_source.h"

namespace accel::engine {

// Batches of an epoch that threads make ahead, given in their order.
class Prefetcher {
 public:
  struct Options {
    // Threads; a source without random access gets one.
    int64_t workers = 1;
    // Batches made and not yet given.
    int64_t depth = 2;
    // Whether batches are put in page-locked memory.
    bool pin_memory = false;
  };

  // Begins at batch `begin` and ends before `end`. `source` must outlive this, with its epoch
  // started, and be used by nobody else.
  Prefetcher(BatchSource& source, int64_t begin, int64_t end, const Options& options);
  // Ends the threads; each finishes the batch it is at.
  ~Prefetcher();

  // Waits for the next batch; nothing behind the last or behind an error. Errors are those of
  // making it.
  absl::StatusOr<std::optional<Batch>> Next();

 private:
  using Made = absl::StatusOr<std::optional<Batch>>;

  void Work();
  bool MayMake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NextIsMade() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return next_to_give_ >= end_ || made_.count(next_to_give_) > 0;
  }

  BatchSource& source_;
  const Options options_;
  absl::Mutex mutex_;
  std::map<int64_t, Made> made_ ABSL_GUARDED_BY(mutex_);
  int64_t next_to_make_ ABSL_GUARDED_BY(mutex_);
  int64_t next_to_give_ ABSL_GUARDED_BY(mutex_);
  int64_t end_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

// Makes a batch; what LibTorch throws becomes a status that names the batch.
absl::StatusOr<std::optional<Batch>> MakeBatch(BatchSource& source, int64_t b, bool pin_memory);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_PREFETCHER_H_
