#ifndef ACCEL_SERVER_SUPERVISOR_OUT_OF_MEMORY_H_
#define ACCEL_SERVER_SUPERVISOR_OUT_OF_MEMORY_H_

#include <cstdint>
#include <filesystem>
#include <optional>

namespace accel::supervisor {

// Tells a process that the kernel ended for lack of memory from one that a user killed, by the
// counter `oom_kill` in memory.events of this process's own cgroup (version 2), which its workers
// share.
class OutOfMemoryCounter {
 public:
  explicit OutOfMemoryCounter(std::filesystem::path events_file);

  // Whether the counter has risen since the last call, or since construction. False where the
  // counter cannot be read.
  bool HasRisen();

  // memory.events of this process's cgroup; empty without cgroup version 2.
  static std::filesystem::path OwnEventsFile();

 private:
  std::optional<int64_t> Read() const;

  const std::filesystem::path events_file_;
  std::optional<int64_t> last_;
};

}  // namespace accel::supervisor

#endif  // ACCEL_SERVER_SUPERVISOR_OUT_OF_MEMORY_H_
