#include "server/daemon/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/errors.h"
#include "core/base/files.h"
#include "server/daemon/exit_codes.h"

namespace accel::daemon {

absl::StatusOr<StateLock> StateLock::Acquire(const std::filesystem::path& state_dir) {
  const std::filesystem::path path = state_dir / "lock";
  Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus("cannot open", path, errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("cannot lock", path, errno);
    char text[32];
    const ssize_t size = pread(file.get(), text, sizeof(text), 0);
    const std::string pid(absl::StripAsciiWhitespace(
        absl::string_view(text, size > 0 ? static_cast<size_t>(size) : 0)));
    return WithErrorInfo(
        absl::AlreadyExistsError(absl::StrCat("state folder ", state_dir.string(),
                                              " is in use by acceld with pid ", pid)),
        kReasonStateLocked, {{"state_dir", state_dir.string()}, {"pid", pid}});
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(file.get(), 0) != 0 ||
      pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus("cannot write", path, errno);
  }
  return StateLock(std::move(file));
}

}  // namespace accel::daemon
