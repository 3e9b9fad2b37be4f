#include "server/supervisor/out_of_memory.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/files.h"

namespace accel::supervisor {

OutOfMemoryCounter::OutOfMemoryCounter(std::filesystem::path events_file)
    : events_file_(std::move(events_file)), last_(Read()) {}

bool OutOfMemoryCounter::HasRisen() {
  const std::optional<int64_t> now = Read();
  const bool risen = now.has_value() && last_.has_value() && *now > *last_;
  last_ = now;
  return risen;
}

std::optional<int64_t> OutOfMemoryCounter::Read() const {
  if (events_file_.empty()) return std::nullopt;
  const absl::StatusOr<std::string> contents = FileSystem::Real().Read(events_file_);
  if (!contents.ok()) return std::nullopt;
  for (absl::string_view line : absl::StrSplit(*contents, '\n')) {
    int64_t count;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count)) return count;
  }
  return std::nullopt;
}

std::filesystem::path OutOfMemoryCounter::OwnEventsFile() {
  const absl::StatusOr<std::string> cgroups = FileSystem::Real().Read("/proc/self/cgroup");
  if (!cgroups.ok()) return {};
  for (absl::string_view line : absl::StrSplit(*cgroups, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::/")) continue;
    return std::filesystem::path("/sys/fs/cgroup") / std::string(line) / "memory.events";
  }
  return {};
}

}  // namespace accel::supervisor
