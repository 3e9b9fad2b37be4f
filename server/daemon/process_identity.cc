#include "server/daemon/process_identity.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"

namespace accel::daemon {
namespace {

std::string BootId() {
  auto text = FileSystem::Real().Read("/proc/sys/kernel/random/boot_id");
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

std::optional<std::string> StartTicks(pid_t pid) {
  auto text = FileSystem::Real().Read(absl::StrCat("/proc/", pid, "/stat"));
  if (!text.ok()) return std::nullopt;
  // The program's name may hold spaces and parentheses; fields are counted after its end.
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(text->substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return std::nullopt;
  return fields[kStartTime];
}

}  // namespace

std::optional<ProcessIdentity> ProcessIdentity::Of(pid_t pid) {
  std::optional<std::string> ticks = StartTicks(pid);
  if (!ticks.has_value()) return std::nullopt;
  return ProcessIdentity{pid, *std::move(ticks), BootId()};
}

std::string ProcessIdentity::ToString() const {
  return absl::StrCat(pid, ":", start_ticks, ":", boot_id);
}

std::optional<ProcessIdentity> ProcessIdentity::Parse(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  ProcessIdentity identity;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &identity.pid)) return std::nullopt;
  identity.start_ticks = parts[1];
  identity.boot_id = parts[2];
  return identity;
}

Fd ProcessIdentity::Open() const {
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // Compared after opening: from here on the descriptor stays with whichever process it found.
  const std::optional<ProcessIdentity> now = Of(pid);
  if (!now.has_value() || now->start_ticks != start_ticks || now->boot_id != boot_id) return Fd();
  return pidfd;
}

}  // namespace accel::daemon
